#include "core/uuid.hpp"

#include <uuid/uuid.h>

namespace oncerun::core {

namespace {

/// Drawn once at random (version 4) and never changed: every key depends on it.
constexpr const char* k_namespace = "03574067-9506-47ae-ab44-0eb1cb42b906";

std::string joined(const RunKey& run) {
  std::string text = run.job.text();
  text.push_back('\0');
  text += run.date.label();
  return text;
}

} // namespace

std::string name_uuid(std::string_view name) {
  uuid_t space;
  uuid_t result;
  uuid_parse(k_namespace, space);
  uuid_generate_sha1(result, space, name.data(), name.size());
  char text[UUID_STR_LEN];
  uuid_unparse_lower(result, text);
  return text;
}

std::string idempotency_key(const RunKey& run, std::optional<int> shard, int generation) {
  std::string text = joined(run);
  text.push_back('\0');
  if (shard) {
    text += std::to_string(*shard);
  }
  text.push_back('\0');
  text += std::to_string(generation);
  return name_uuid(text);
}

std::string ancestor_hash(const RunKey& run) {
  return name_uuid("ancestor" + std::string(1, '\0') + joined(run));
}

} // namespace oncerun::core
