// Plans of earlier plan searches: results that are used again, and candidates for other plan
// searches of the same graph.
#pragma once

#include <vector>

#include "base/files/document.h"
#include "tools/cli/internal/run/plan_cache.h"
#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// The cache of the results, and beside it the last plan of each graph and number of ranks,
/// whatever the cluster and its memory.
class EarlierPlans {
 public:
  ///   folder  nullopt: nothing is found and nothing is kept
  explicit EarlierPlans(const std::optional<std::filesystem::path>& folder)
      : results_(folder), of_graphs_(folder, "graph") {}

  /// The best plan to the same plan search (cache_key), if it is usable; nullopt when there is
  /// none.
  std::optional<Document> result(const Planned& planned) const;

  /// Plans for the graph that obey the constraints: candidates of the source kCached. None when
  /// marks or other keys of a preset are fixed.
  std::vector<Candidate> candidates(const Planned& planned) const;

  /// Keeps the best plan.
  ///   requires  planned.best()
  void keep(const Planned& planned, const Document& document) const;

 private:
  PlanCache results_, of_graphs_;
};

/// What the cache keeps of a result: the plan, its name, and the verdict in lines.
///   requires  planned.best()
Document cached_document(const Planned& planned);

/// The plan of such a document.
///   throws  UserError as parse_plan
Plan plan_of(const Document& cached);
/// The verdict of such a document, in lines.
std::vector<std::string> verdict_of(const Document& cached);

}  // namespace tessera
