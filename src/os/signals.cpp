#include "os/signals.hpp"
