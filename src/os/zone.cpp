#include "os/zone.hpp"
