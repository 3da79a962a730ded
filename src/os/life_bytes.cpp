#include "os/life_bytes.hpp"
