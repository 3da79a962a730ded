// The state file's document and the transitions of its mark. Input: the file; behind a NUL byte,
// which no document may have, a date for the transitions.

#include "core/state_document.hpp"
#include "fuzz/fuzz.hpp"
#include "state/mark.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <optional>

using namespace oncerun;
using core::StateDocument;
using fuzz::require;
using Json = nlohmann::ordered_json;

namespace {

// oncerun(1), STATE FILE: the keys of the format and oncerun's own.
constexpr std::array k_ours{"lastPublishedDate",
                            "status",
                            "pendingDate",
                            "job",
                            "every",
                            "zone",
                            "skippedDate",
                            "runId",
                            "token",
                            "serial",
                            "attempts",
                            "generation",
                            "neverStarted",
                            "ready",
                            "endRecorded",
                            "host",
                            "machineId",
                            "bootId",
                            "lifeId",
                            "pidNamespace",
                            "pid",
                            "startedAt",
                            "updatedAt",
                            "exitCode",
                            "signal",
                            "note"};

std::optional<StateDocument> read(const std::string& text) {
  try {
    return core::parse_state(text);
  } catch (const core::StateDocumentError& error) {
    require(error.what()[0] != '\0', "a refusal says why");
    return std::nullopt;
  }
}

Json without_ours(Json json) {
  for (const char* key : k_ours) {
    json.erase(key);
  }
  return json;
}

std::string label(const std::optional<core::BizDate>& date) {
  return date ? date->label() : "";
}

/// Every unknown key, its value and its place among the others.
void check_unknown_keys(const std::string& text, const StateDocument& document) {
  const bool marked = text.starts_with("\xEF\xBB\xBF");
  const Json json = Json::parse(text.substr(marked ? 3 : 0));
  require(json.is_object(), "only an object is a document", text);
  const std::string unknown = without_ours(json).dump();
  require(document.unknown_keys == unknown, "unknown keys are kept, in their order", text);
  const Json printed = Json::parse(core::print_state(document));
  require(without_ours(printed).dump() == unknown, "unknown keys are written again", text);
  for (const char* key : {"lastPublishedDate", "pendingDate", "skippedDate", "job", "runId"}) {
    const bool given = json.contains(key) && !json[key].is_null() && json[key] != "";
    require(given ? printed.contains(key) && printed[key] == json[key] : !printed.contains(key),
            "what the file says is what is written", key);
  }
}

void check_document(const StateDocument& document) {
  for (const auto& date : {document.last_published, document.pending_date, document.skipped_date}) {
    require(!date || (!date->label().empty() && date->label().size() <= 512 &&
                      !core::has_control_character(date->label())),
            "a date is a label", label(date));
  }
  const bool doubt = document.status == StateDocument::Status::pending ||
                     document.status == StateDocument::Status::unknown;
  require(!doubt || document.pending_date, "a doubt has its date");
  require(document.token >= 0 && document.serial >= 0 && document.attempts >= 0 &&
              document.generation >= 1 && document.pid >= 0,
          "numbers are in range");
}

/// What oncerun writes it reads again, as the same.
void check_round_trip(const StateDocument& document) {
  const std::string printed = core::print_state(document);
  const auto again = read(printed);
  require(again.has_value(), "what is written is read again", printed);
  require(core::print_state(*again) == printed, "printing what was printed changes nothing",
          printed);
  check_document(*again);
}

void check_forward(const StateDocument& before, const StateDocument& after, const char* what) {
  require(!before.last_published ||
              (after.last_published && *before.last_published <= *after.last_published),
          "lastPublishedDate never goes back", what);
  require(before.unknown_keys == after.unknown_keys, "a transition keeps unknown keys", what);
  check_round_trip(after);
}

core::ClaimRequest request(const core::RunKey& key) {
  core::ClaimRequest asked{.key = key,
                           .period = "day",
                           .zone = "UTC",
                           .run_id = "4be0643f-1d98-573b-97cd-ca98a65347dd",
                           .check_verdict = {},
                           .evidence = {}};
  return asked;
}

void check_claim_and_result(const StateDocument& document, const core::RunKey& key) {
  const std::string now = "2026-10-26T02:00:00.000Z";
  const core::OwnerIdentity owner{"host", "machine", "boot", "life", 1, 2};
  const StateDocument claimed =
      state::with_claim(document, request(key), core::Token{document.token + 1}, true, owner, now);
  check_forward(document, claimed, "claim");
  const auto run = state::run_of(claimed, key);
  require(run && run->status == core::RunStatus::pending && !run->end_recorded,
          "a claim is pending and open");
  for (const core::RunStatus status :
       {core::RunStatus::done, core::RunStatus::failed, core::RunStatus::unknown}) {
    core::AttemptResult result;
    result.status = status;
    const StateDocument ended = state::with_result(claimed, key.date, result, now);
    check_forward(claimed, ended, "result");
    const auto after = state::run_of(ended, key);
    require(!after || after->status == status, "a result is what stands there");
    require(after || (status == core::RunStatus::done && state::is_not_knowable(ended, key.date)),
            "nothing but an old done date is forgotten");
  }
}

void check_settlements(const StateDocument& document, const core::RunKey& key) {
  for (const core::RunStatus to : {core::RunStatus::done, core::RunStatus::skipped,
                                   core::RunStatus::ready, core::RunStatus::unknown}) {
    const core::Settlement settlement{.to = to,
                                      .kind = "resolve",
                                      .by = "root@host",
                                      .detail = "seen to",
                                      .period = "day",
                                      .zone = "UTC"};
    try {
      const StateDocument after =
          state::with_settlement(document, key, settlement, "2026-10-26T02:00:00.000Z");
      check_forward(document, after, "settlement");
      const auto run = state::run_of(after, key);
      require(!run || run->status == to, "a verdict is what stands there");
      require(run || state::is_not_knowable(after, key.date), "a verdict is not forgotten");
    } catch (const core::Error& error) {
      require(error.outcome() == core::Outcome::held || error.outcome() == core::Outcome::config,
              "a verdict is refused as held or config", error.what());
    }
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t nul = std::min(input.find('\0'), input.size());
  const std::string text(input.substr(0, nul));
  if (nul != input.size()) {
    require(!read(std::string(input)), "a NUL byte is refused");
  }
  const auto document = read(text);
  if (!document) {
    return 0;
  }
  check_unknown_keys(text, *document);
  check_document(*document);
  check_round_trip(*document);
  const std::string date(nul == input.size() ? "2026-10-26" : input.substr(nul + 1));
  if (date.empty() || date.size() > 512 || !core::is_utf8(date) ||
      core::has_control_character(date)) {
    return 0;
  }
  const core::RunKey key{core::JobName::parse("settle"), core::BizDate(date)};
  check_claim_and_result(*document, key);
  check_settlements(*document, key);
  return 0;
}
