/* What any process costs: its start and its end. Linked dynamically and statically, the difference
 * is the dynamic linker's. */
int main(void) {
  return 0;
}
