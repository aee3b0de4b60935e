#include "tools/cli/internal/print/plan/search_stages_text.h"

#include <fmt/format.h>

#include "base/text/count_text.h"
#include "simulator/step/step_text.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {

std::string search_stages_text(const PlanSearchResult& result) {
  TextTable table({"stage", "time", "candidates", "best step", "what it tries"}, "lrrrl");
  const std::vector<SearchStageReport>& stages = result.stages;
  for (size_t first = 0, end = 0; first < stages.size(); first = end) {
    SearchStageReport all = stages[first];
    for (end = first + 1; end < stages.size() && stages[end].name == all.name; ++end) {
      all.has_run = all.has_run || stages[end].has_run;
      all.time += stages[end].time;
      all.evaluated += stages[end].evaluated;
      all.best = stages[end].best;
    }
    const std::string rounds = end - first > 1 ? fmt::format(", {} rounds", end - first) : "";
    table.add({all.name + rounds, all.has_run ? step_text(all.time) : "not run",
               all.has_run ? grouped(all.evaluated) : "",
               all.has_run && all.best ? step_text(*all.best) : "", all.explanation});
  }
  return "\nStages of the search\n" + table.text();
}

Document search_stages_document(const PlanSearchResult& result) {
  Document list{Document::List()};
  for (const SearchStageReport& stage : result.stages) {
    Document item;
    item["name"] = stage.name;
    item["explanation"] = stage.explanation;
    item["has_run"] = stage.has_run;
    item["seconds"] = stage.time.value();
    item["candidates"] = stage.evaluated;
    item["best_seconds"] = stage.best ? Document(stage.best->value()) : Document();
    list.append(std::move(item));
  }
  return list;
}

}  // namespace tessera
