#include "os/file.hpp"
