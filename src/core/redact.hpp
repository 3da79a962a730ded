#pragma once

#include <string>
#include <string_view>

namespace oncerun::core {

/// `text` with its secrets replaced by `***`: the password in the userinfo of every URL
/// (`redis://user:***@host`), and the value of every `password` (also sslpassword, passwd, pwd), be
/// it a query parameter or a keyword of a libpq connection string (quoted as PostgreSQL's manual,
/// section 34.1.1, says). Where a password is not percent-encoded as it ought to be, too much is
/// masked rather than too little. Nothing else is changed, so it may be applied to any message.
[[nodiscard]] std::string redact(std::string_view text);

} // namespace oncerun::core
