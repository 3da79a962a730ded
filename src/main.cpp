#include "cli/cli.hpp"

#include <unistd.h>

int main(int argc, char** argv) {
  return oncerun::cli::main(argc, argv, environ);
}
