#include "ops/ledger_accept.hpp"

#include "ops/human.hpp"
#include "ops/json.hpp"

namespace oncerun::ops {

int ledger_accept(core::Ledger& ledger, const LedgerAcceptOptions& options,
                  const core::StopRequest& stop, Output& output) {
  ledger.accept(options.by, stop);
  if (output.json) {
    Json document;
    document["accepted"] = ledger.describe();
    document["by"] = text_or_null(options.by);
    print(output, document);
    return 0;
  }
  output.line("accepted " + printable(ledger.describe()) +
              "; runs of between the copy and today are not in it: compare `oncerun status` with "
              "what really happened before the next start");
  return 0;
}

} // namespace oncerun::ops
