#include "os/clock.hpp"
