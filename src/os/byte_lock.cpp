#include "os/byte_lock.hpp"
