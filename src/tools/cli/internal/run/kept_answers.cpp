#include "tools/cli/internal/run/kept_answers.h"

#include <fmt/format.h>

namespace tessera {
namespace {

constexpr const char *kAnswerDocument = "document", *kAnswerVerdict = "verdict",
                     *kAnswerDetails = "details";

/// The plan does not depend on names, and what is printed does.
std::string answer_key(const Planned& planned) {
  return fmt::format("{}\non {}\nof {} {}s, held out {}", cache_key(planned), planned.cluster_name,
                     planned.units, planned.unit, planned.config.data.held_out);
}

}  // namespace

std::optional<KeptAnswer> KeptAnswers::find(const Planned& planned) const {
  const std::optional<Document> kept = cache_.find(answer_key(planned));
  if (!kept || !kept->is_table()) return std::nullopt;
  const Document* document = kept->find(kAnswerDocument);
  const Document* verdict = kept->find(kAnswerVerdict);
  const Document* details = kept->find(kAnswerDetails);
  const bool is_whole = document && document->is_table() && document->find("plan") && verdict &&
                        verdict->is_string() && details && details->is_string();
  if (!is_whole) return std::nullopt;
  return KeptAnswer{*document, verdict->as_string(), details->as_string()};
}

void KeptAnswers::keep(const Planned& planned, const KeptAnswer& answer) const {
  Document kept;
  kept[kAnswerDocument] = answer.document;
  kept[kAnswerVerdict] = answer.verdict;
  kept[kAnswerDetails] = answer.details;
  cache_.keep(answer_key(planned), kept);
}

}  // namespace tessera
