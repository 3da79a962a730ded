// The C library's mathematics, loaded when it is used.
//
// SQLite's archive names these functions for its SQL functions of the same names; no statement of
// oncerun's calls one. Linked in the ordinary way libm is mapped and relocated at every start, and
// that is a tenth of what a start without a ledger costs. A trigger or a view that somebody made in
// the ledger's database still gets the right result: the first call loads the library (dlopen(3)).
// Without the library the result is not a number, which SQL reads as NULL.
//
// Only the linker sees this file: no header declares what it defines but <math.h>.

#include <dlfcn.h>

#include <limits>

namespace {

void* named(const char* name) noexcept {
  static void* const s_library = ::dlopen("libm.so.6", RTLD_LAZY | RTLD_LOCAL);
  return s_library == nullptr ? nullptr : ::dlsym(s_library, name);
}

double call(const char* name, double x) noexcept {
  const auto function = reinterpret_cast<double (*)(double)>(named(name));
  return function == nullptr ? std::numeric_limits<double>::quiet_NaN() : function(x);
}

double call(const char* name, double x, double y) noexcept {
  const auto function = reinterpret_cast<double (*)(double, double)>(named(name));
  return function == nullptr ? std::numeric_limits<double>::quiet_NaN() : function(x, y);
}

} // namespace

extern "C" {

double acos(double x) {
  return call("acos", x);
}
double acosh(double x) {
  return call("acosh", x);
}
double asin(double x) {
  return call("asin", x);
}
double asinh(double x) {
  return call("asinh", x);
}
double atan(double x) {
  return call("atan", x);
}
double atanh(double x) {
  return call("atanh", x);
}
double ceil(double x) {
  return call("ceil", x);
}
double cos(double x) {
  return call("cos", x);
}
double cosh(double x) {
  return call("cosh", x);
}
double exp(double x) {
  return call("exp", x);
}
double floor(double x) {
  return call("floor", x);
}
double log(double x) {
  return call("log", x);
}
double log10(double x) {
  return call("log10", x);
}
double log2(double x) {
  return call("log2", x);
}
double sin(double x) {
  return call("sin", x);
}
double sinh(double x) {
  return call("sinh", x);
}
double sqrt(double x) {
  return call("sqrt", x);
}
double tan(double x) {
  return call("tan", x);
}
double tanh(double x) {
  return call("tanh", x);
}
double trunc(double x) {
  return call("trunc", x);
}
double atan2(double x, double y) {
  return call("atan2", x, y);
}
double fmod(double x, double y) {
  return call("fmod", x, y);
}
double pow(double x, double y) {
  return call("pow", x, y);
}

} // extern "C"
