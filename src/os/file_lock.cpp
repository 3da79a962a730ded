#include "os/file_lock.hpp"
