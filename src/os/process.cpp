#include "os/process.hpp"
