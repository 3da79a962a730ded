#include "core/state_document.hpp"

#include "core/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace oncerun::core {

namespace {

using Json = nlohmann::ordered_json;
using Status = StateDocument::Status;

constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";
/// No script nests that deep, and printing recurses.
constexpr int k_max_depth = 64;

// The keys, in the order in which they are printed.
constexpr const char* k_last_published = "lastPublishedDate";
constexpr const char* k_status = "status";
constexpr const char* k_pending = "pendingDate";
constexpr const char* k_skipped = "skippedDate";

// Which member stands under which key; read and printed by the same table.
struct TextField {
  const char* key;
  std::string StateDocument::*member;
};
constexpr std::array<TextField, 11> k_texts{{
    {"job", &StateDocument::job},
    {"every", &StateDocument::every},
    {"zone", &StateDocument::zone},
    {"runId", &StateDocument::run_id},
    {"host", &StateDocument::host},
    {"machineId", &StateDocument::machine_id},
    {"bootId", &StateDocument::boot_id},
    {"lifeId", &StateDocument::life_id},
    {"startedAt", &StateDocument::started_at},
    {"updatedAt", &StateDocument::updated_at},
    {"note", &StateDocument::note},
}};

struct FlagField {
  const char* key;
  bool StateDocument::*member;
  bool usual; ///< the value that is not printed
};
constexpr std::array<FlagField, 3> k_flags{{
    {"neverStarted", &StateDocument::never_started, false},
    {"ready", &StateDocument::ready, false},
    {"endRecorded", &StateDocument::end_recorded, true},
}};

template<typename Number>
struct NumberField {
  const char* key;
  Number StateDocument::*member;
  Number least;
  Number greatest;
  Number usual; ///< the value that is not printed
};
// What is counted on from here has room for that, and half of it is far beyond any count.
constexpr std::int64_t k_most_long = std::numeric_limits<std::int64_t>::max() / 2;
constexpr int k_most_int = std::numeric_limits<int>::max() / 2;
constexpr std::array<NumberField<std::int64_t>, 2> k_longs{{
    {"token", &StateDocument::token, 0, k_most_long, 0},
    {"serial", &StateDocument::serial, 0, k_most_long, 0},
}};
constexpr std::array<NumberField<int>, 2> k_ints{{
    {"attempts", &StateDocument::attempts, 0, k_most_int, 0},
    {"generation", &StateDocument::generation, 1, k_most_int, 1},
}};
constexpr NumberField<std::uint64_t> k_pid_namespace{
    "pidNamespace", &StateDocument::pid_namespace, 0, std::numeric_limits<std::uint64_t>::max(), 0};
/// No wider than pid_t.
constexpr NumberField<long> k_pid{"pid", &StateDocument::pid, 0, std::numeric_limits<int>::max(),
                                  0};

struct OptionalField {
  const char* key;
  std::optional<int> StateDocument::*member;
  int greatest;
};
constexpr std::array<OptionalField, 2> k_optionals{{
    {"exitCode", &StateDocument::exit_code, 255},
    {"signal", &StateDocument::signal, 64},
}};

struct StatusName {
  Status status;
  std::string_view name;
};
constexpr std::array<StatusName, 4> k_statuses{{
    {Status::pending, "pending"},
    {Status::done, "done"},
    {Status::failed, "failed"},
    {Status::unknown, "unknown"},
}};

[[noreturn]] void refuse(const std::string& what) {
  throw StateDocumentError(what);
}

bool is_ours(std::string_view key) {
  const auto has = [key](const auto& fields) {
    return std::ranges::any_of(fields, [key](const auto& field) { return key == field.key; });
  };
  return key == k_last_published || key == k_status || key == k_pending || key == k_skipped ||
         has(k_texts) || has(k_flags) || has(k_longs) || has(k_ints) || has(k_optionals) ||
         key == k_pid_namespace.key || key == k_pid.key;
}

// --- reading

/// Sees the text's structure go by: a key of ours may stand there once only, and the nesting has a
/// limit.
class Watcher {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > k_max_depth) {
      refuse("it is nested more than " + std::to_string(k_max_depth) + " deep");
    }
    if (event == Json::parse_event_t::key && depth == 1) {
      note_key(parsed.get_ref<const std::string&>());
    }
    return true;
  }

 private:
  void note_key(const std::string& key) {
    if (!is_ours(key)) {
      return;
    }
    if (std::ranges::find(m_seen, key) != m_seen.end()) {
      refuse(key + " stands there twice");
    }
    m_seen.push_back(key);
  }

  std::vector<std::string> m_seen;
};

Json parse_object(std::string_view text) {
  // nlohmann's lexer takes a NUL for the end: what follows would go unseen.
  const std::size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    refuse("byte " + std::to_string(nul + 1) + ": a NUL byte");
  }
  const std::size_t skipped = text.starts_with(k_byte_order_mark) ? k_byte_order_mark.size() : 0;
  text.remove_prefix(skipped);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    refuse("it is empty");
  }
  try {
    Watcher watcher;
    Json json = Json::parse(text, [&watcher](int depth, Json::parse_event_t event, Json& parsed) {
      return watcher(depth, event, parsed);
    });
    if (!json.is_object()) {
      refuse("it is not a JSON object");
    }
    return json;
  } catch (const Json::parse_error& error) {
    refuse("byte " + std::to_string(error.byte + skipped) + ": not valid JSON");
  } catch (const Json::out_of_range&) {
    refuse("a number in it is out of range");
  }
}

/// The value under `key`, taken out of the object; nullopt for an absent one or null.
std::optional<Json> take(Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) {
    return std::nullopt;
  }
  Json value = std::move(*found);
  json.erase(found);
  return value.is_null() ? std::nullopt : std::optional(std::move(value));
}

std::string take_text(Json& json, const char* key) {
  const std::optional<Json> value = take(json, key);
  if (!value) {
    return {};
  }
  if (!value->is_string()) {
    refuse(std::string(key) + " is not a string");
  }
  return value->get<std::string>();
}

std::optional<BizDate> take_date(Json& json, const char* key) {
  const std::optional<Json> value = take(json, key);
  if (!value) {
    return std::nullopt;
  }
  if (!value->is_string()) {
    refuse(std::string(key) + " is not a string");
  }
  const auto& label = value->get_ref<const std::string&>();
  if (label.empty() || label.size() > BizDate::k_max_bytes || has_control_character(label)) {
    refuse(std::string(key) + " is " + quote(label) + ", which is no date");
  }
  return BizDate(label);
}

Status take_status(Json& json) {
  const std::optional<Json> value = take(json, k_status);
  if (!value) {
    return Status::none;
  }
  if (!value->is_string()) {
    refuse("status is not a string");
  }
  const auto& name = value->get_ref<const std::string&>();
  const auto* found = std::ranges::find(k_statuses, std::string_view(name), &StatusName::name);
  if (found == k_statuses.end()) {
    refuse("status is " + quote(name));
  }
  return found->status;
}

bool take_flag(Json& json, const FlagField& field) {
  const std::optional<Json> value = take(json, field.key);
  if (!value) {
    return field.usual;
  }
  if (!value->is_boolean()) {
    refuse(std::string(field.key) + " is neither true nor false");
  }
  return value->get<bool>();
}

/// A whole number from `least` to `greatest`; nullopt if it is absent.
template<typename Number>
std::optional<Number> take_number(Json& json, const char* key, Number least, Number greatest) {
  const std::optional<Json> value = take(json, key);
  if (!value) {
    return std::nullopt;
  }
  if (!value->is_number_integer()) {
    refuse(std::string(key) + " is not a whole number");
  }
  const bool in_range = value->is_number_unsigned()
                            ? std::cmp_less_equal(value->get<std::uint64_t>(), greatest) &&
                                  std::cmp_greater_equal(value->get<std::uint64_t>(), least)
                            : std::cmp_less_equal(value->get<std::int64_t>(), greatest) &&
                                  std::cmp_greater_equal(value->get<std::int64_t>(), least);
  if (!in_range) {
    refuse(std::string(key) + " is out of range");
  }
  return value->get<Number>();
}

template<typename Number>
void read_number(Json& json, StateDocument& document, const NumberField<Number>& field) {
  document.*field.member =
      take_number(json, field.key, field.least, field.greatest).value_or(field.usual);
}

/// What the three fields say together must leave no doubt about which date they speak of.
void check_dates(StateDocument& document) {
  if (document.pending_date && document.status == Status::none) {
    document.status = Status::pending;
  }
  const bool doubtful = document.status == Status::pending || document.status == Status::unknown;
  if (doubtful && !document.pending_date) {
    refuse("the status is in doubt, but there is no pendingDate");
  }
  if (document.status == Status::done && document.pending_date &&
      (!document.last_published || *document.last_published < *document.pending_date)) {
    refuse("status is done, but pendingDate is later than lastPublishedDate");
  }
}

// --- printing

void put_date(Json& json, const char* key, const std::optional<BizDate>& date) {
  if (date) {
    json[key] = date->label();
  }
}

template<typename Number>
void put_number(Json& json, const StateDocument& document, const NumberField<Number>& field) {
  if (document.*field.member != field.usual) {
    json[field.key] = document.*field.member;
  }
}

void put_texts(Json& json, const StateDocument& document) {
  for (const TextField& field : k_texts) {
    if (!(document.*field.member).empty()) {
      json[field.key] = document.*field.member;
    }
  }
}

void put_private(Json& json, const StateDocument& document) {
  for (const auto& field : k_longs) {
    put_number(json, document, field);
  }
  for (const auto& field : k_ints) {
    put_number(json, document, field);
  }
  put_number(json, document, k_pid_namespace);
  put_number(json, document, k_pid);
  for (const FlagField& field : k_flags) {
    if (document.*field.member != field.usual) {
      json[field.key] = document.*field.member;
    }
  }
  for (const OptionalField& field : k_optionals) {
    if (document.*field.member) {
      json[field.key] = *(document.*field.member);
    }
  }
}

/// Two-space indent; a text that is not UTF-8 (a host's name may be anything) loses the odd byte
/// rather than the file.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

} // namespace

StateDocument parse_state(std::string_view text) {
  Json json = parse_object(text);
  StateDocument document;
  document.last_published = take_date(json, k_last_published);
  document.status = take_status(json);
  document.pending_date = take_date(json, k_pending);
  document.skipped_date = take_date(json, k_skipped);
  for (const TextField& field : k_texts) {
    document.*field.member = take_text(json, field.key);
  }
  for (const FlagField& field : k_flags) {
    document.*field.member = take_flag(json, field);
  }
  for (const auto& field : k_longs) {
    read_number(json, document, field);
  }
  for (const auto& field : k_ints) {
    read_number(json, document, field);
  }
  read_number(json, document, k_pid_namespace);
  read_number(json, document, k_pid);
  for (const OptionalField& field : k_optionals) {
    document.*field.member = take_number(json, field.key, 0, field.greatest);
  }
  check_dates(document);
  document.unknown_keys = json.dump();
  return document;
}

std::string print_state(const StateDocument& document) {
  Json json = Json::object();
  put_date(json, k_last_published, document.last_published);
  const auto* status = std::ranges::find(k_statuses, document.status, &StatusName::status);
  if (status != k_statuses.end()) {
    json[k_status] = status->name;
  }
  put_date(json, k_pending, document.pending_date);
  put_texts(json, document);
  put_date(json, k_skipped, document.skipped_date);
  put_private(json, document);
  const Json unknown = Json::parse(document.unknown_keys);
  for (const auto& [key, value] : unknown.items()) {
    if (!is_ours(key)) {
      json[key] = value;
    }
  }
  return dump(json) + "\n";
}

std::string why_not_this_job(const StateDocument& document, std::string_view job,
                             std::string_view every) {
  if (!document.job.empty() && document.job != job) {
    return "it belongs to the job " + quote(document.job);
  }
  if (!document.every.empty() && document.every != every) {
    return "its period is " + quote(document.every) + ", not " + std::string(every);
  }
  return {};
}

std::string json_library_version() {
  return std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." +
         std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
         std::to_string(NLOHMANN_JSON_VERSION_PATCH);
}

} // namespace oncerun::core
