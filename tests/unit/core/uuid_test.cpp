#include "core/uuid.hpp"
#include "support/catch.hpp"

namespace core = oncerun::core;

namespace {

core::RunKey settle(const char* date) {
  return {core::JobName::parse("settle"), core::BizDate(date)};
}

} // namespace

// The expected values are python's: uuid.uuid5(UUID("03574067-9506-47ae-ab44-0eb1cb42b906"), NAME).

TEST_CASE("a name-based UUID is version 5 of RFC 9562") {
  CHECK(core::name_uuid("") == "cf116664-c0e0-5463-b4a9-c82ff27bfe2d");
  CHECK(core::name_uuid("settle") == "5aa42f6b-9373-530e-9363-d11a64aaa013");
  CHECK(core::name_uuid("s\xC3\xBC"
                        "d") == "fe9a08e6-6d26-5623-aa6c-79e6c43e67c8");
}

TEST_CASE("an idempotency key is that of job, date, shard and generation") {
  CHECK(core::idempotency_key(settle("2026-10-26"), std::nullopt, 1) ==
        "cc3baa9f-19f6-5f43-8a1a-3d3748e9b038");
  CHECK(core::idempotency_key(settle("2026-10-26"), 0, 1) ==
        "f2aad536-e40e-5899-ac9d-192ca8910e55");
  CHECK(core::idempotency_key(settle("2026-10-26"), std::nullopt, 2) ==
        "bf2a11db-9f39-5075-984e-fe087a90dd35");
}

TEST_CASE("an ancestor's hash is neither key nor name") {
  CHECK(core::ancestor_hash(settle("2026-10-26")) == "a3d27f73-eede-589b-8cff-defd9fa82659");
  CHECK(core::ancestor_hash(settle("2026-10-26")) != core::ancestor_hash(settle("2026-10-27")));
}
