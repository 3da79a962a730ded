#include "os/host.hpp"
