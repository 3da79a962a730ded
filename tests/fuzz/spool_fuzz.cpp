// Results in the spool: what is not, byte for byte, a result of that very attempt is never posted.
// Input: slots, separated by the byte 1. A slot begins with its kind: `S` and a body, which gets
// the right checksum; `T` the same, torn; anything else is what stands in the file. In a body $L,
// $R, $N and $T stand for the ledger's id and the dead attempt's run id, serial and token.

#include "fuzz/ledger_folder.hpp"
#include "ledger/spool.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

using namespace oncerun;
using fuzz::require;

namespace {

constexpr std::size_t k_slot = 512;
constexpr std::string_view k_magic = "oncerun-result 1 ";
constexpr std::size_t k_body_at = k_magic.size() + 17;

/// FNV-1a, 64 bits, from its published constants.
std::string checksum(std::string_view bytes) {
  std::uint64_t sum = 14695981039346656037U;
  for (const char c : bytes) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum));
  return text;
}

struct Start {
  core::ClaimedRun dead{fuzz::k_run, "", {}, 0, 1, 1, "", "", false};
  fuzz::Files files;
  std::string ledger_id;
};

const Start& start() {
  static const Start s_start = [] {
    Start made;
    made.files = fuzz::ledger_with_a_dead_owner(&made.dead);
    const fuzz::Folder folder;
    folder.restore(made.files);
    made.ledger_id =
        fuzz::Sqlite(folder.ledger()).query("SELECT ledger_id FROM oncerun_meta").substr(1);
    return made;
  }();
  return s_start;
}

std::string filled_in(std::string_view body) {
  std::string out;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char name = body[i] == '$' && i + 1 < body.size() ? body[i + 1] : '\0';
    const core::ClaimedRun& dead = start().dead;
    if (std::string_view("LRNT").find(name) == std::string_view::npos || name == '\0') {
      out += body[i];
      continue;
    }
    ++i;
    out += name == 'L'   ? start().ledger_id
           : name == 'R' ? dead.run_id
           : name == 'N' ? std::to_string(dead.serial)
                         : std::to_string(dead.token.value);
  }
  return out;
}

std::string file_of(std::string_view input) {
  std::string file;
  for (const std::string& piece : fuzz::split(input, '\1')) {
    if (piece.empty() || (piece[0] != 'S' && piece[0] != 'T')) {
      file += piece;
      continue;
    }
    std::string body = filled_in(std::string_view(piece).substr(1));
    body.resize(k_slot - k_body_at, '\0');
    const std::string sum = checksum(body);
    body.back() = static_cast<char>(body.back() + (piece[0] == 'T' ? 1 : 0));
    file += std::string(k_magic) + sum + "\n" + body;
  }
  return file;
}

/// The NAME=VALUE lines of a slot whose checksum is right; the first of a name counts.
using Fields = std::map<std::string, std::string>;
std::optional<Fields> fields_of(std::string_view slot) {
  const std::string_view body = slot.substr(k_body_at);
  if (!slot.starts_with(std::string(k_magic) + checksum(body) + "\n")) {
    return std::nullopt;
  }
  Fields fields;
  for (const std::string& line : fuzz::split(body.substr(0, body.find('\0')), '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) {
      fields.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return fields;
}

std::string field(const Fields& fields, const char* name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

/// A whole number in 64 bits; none for anything else.
std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// Whether all is there that a result needs, and nothing contradicts itself.
bool is_result(const Fields& fields) {
  const std::string status = field(fields, "status");
  const bool started = field(fields, "never_started") != "1";
  return ((started && (status == "done" || status == "unknown")) || status == "failed") &&
         number(field(fields, "serial")) && number(field(fields, "token"));
}

bool is_for_the_attempt(const Fields& fields) {
  return field(fields, "ledger") == start().ledger_id &&
         field(fields, "run") == start().dead.run_id &&
         number(field(fields, "serial")) == start().dead.serial;
}

/// What a start has to make of a file.
struct Results {
  std::vector<Fields> posted;
  std::string left; ///< the file afterwards: what was posted is gone, and nothing else
};

Results results_in(const std::string& file) {
  Results found{{}, file};
  for (std::size_t at = 0; at + k_slot <= file.size(); at += k_slot) {
    const auto fields = fields_of(std::string_view(file).substr(at, k_slot));
    if (!fields || !is_result(*fields)) {
      continue;
    }
    if (is_for_the_attempt(*fields)) {
      found.posted.push_back(*fields);
    } else if (field(*fields, "never_started") != "1") {
      continue; // kept, and said
    }
    // A claim that was given back and never became durable leaves nothing to be told.
    found.left.replace(at, k_slot, k_slot, '\0');
  }
  return found;
}

void check_slots(const std::string& file) {
  for (std::size_t at = 0; at + k_slot <= file.size(); at += k_slot) {
    const std::string_view slot = std::string_view(file).substr(at, k_slot);
    const auto parsed = ledger::parse_slot(slot);
    if (!parsed) {
      continue;
    }
    require(fields_of(slot).has_value(), "a torn slot is no result");
    const std::string printed = ledger::print_slot(*parsed);
    const auto again = ledger::parse_slot(printed);
    require(printed.size() == k_slot && again.has_value() && ledger::print_slot(*again) == printed,
            "a slot is read as it was printed");
  }
}

struct Standing {
  std::string run;
  std::string attempt;
  std::string rest;
};

Standing standing(const fuzz::Folder& folder) {
  const fuzz::Sqlite database(folder.ledger());
  return {database.query("SELECT status FROM job_run WHERE job_name = 'settle'"),
          database.query("SELECT coalesce(ended_by, ''), coalesce(result, '') FROM job_attempt "
                         "WHERE job_name = 'settle'"),
          database.query("SELECT * FROM job_run WHERE job_name <> 'settle'") +
              database.query("SELECT * FROM job_attempt WHERE job_name <> 'settle'") +
              database.query("SELECT * FROM oncerun_job")};
}

/// A start that posts, looks and decides to hold.
void post(const fuzz::Folder& folder) {
  const auto ledger = fuzz::open(folder);
  const auto outcome = ledger->claim(
      fuzz::k_lock, fuzz::request(fuzz::k_run),
      [](const core::Sighting&) {
        return core::Decision{core::Action::hold, core::Reason::in_doubt};
      },
      fuzz::k_no_stop);
  require(std::holds_alternative<core::NotClaimed>(outcome), "who decides to hold claims nothing");
}

void check_posted(const fuzz::Folder& folder, const Standing& before, const std::string& file) {
  const Results results = results_in(file);
  const Standing after = standing(folder);
  require(after.rest == before.rest, "other runs stay as they are");
  require(fuzz::read_file(folder / "led.db-spool") == results.left,
          "what was posted is cleared, and nothing else");
  if (results.posted.empty()) {
    require(after.run == before.run && after.attempt == before.attempt,
            "nothing is posted without a result of this attempt");
    return;
  }
  const Fields& first = results.posted.front();
  const std::string status = field(first, "status");
  require(after.attempt == "\nspool|" + status, "the first result is the attempt's");
  if (number(field(first, "token")) != start().dead.token.value) {
    require(after.run == before.run || (status == "done" && after.run == "\nunknown"),
            "a result with another token decides nothing");
  } else if (field(first, "never_started") == "1") {
    require(after.run == "\nfailed", "what was never started failed");
  } else {
    require(after.run == "\n" + status, "the run is what its owner said");
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder s_folder;
  const std::string file = file_of(fuzz::text_of(data, size));
  check_slots(file);
  s_folder.restore(start().files);
  const Standing before = standing(s_folder);
  fuzz::write_file(s_folder / "led.db-spool", file);
  post(s_folder);
  check_posted(s_folder, before, file);
  return 0;
}
