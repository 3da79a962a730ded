#include "os/atomic_file.hpp"
