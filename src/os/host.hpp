#pragma once

#include "core/records.hpp"

#include <string>

namespace oncerun::os {

/// Host name, machine-id(5), boot id, pid namespace and pid of this process; life_id stays empty.
/// What cannot be read stays empty (a container without /etc/machine-id) and then proves nothing.
[[nodiscard]] core::OwnerIdentity this_process();

/// "user@host" for the audit trail: the login name where there is one, else the uid.
[[nodiscard]] std::string who_am_i();

/// A random UUID (RFC 9562, version 4) from getrandom(2).
[[nodiscard]] std::string random_uuid();

} // namespace oncerun::os
