// Answers of `tessera plan` that are printed again to an equal request.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/files/document.h"
#include "tools/cli/internal/run/plan_cache.h"
#include "tools/cli/internal/run/plan_search.h"

namespace tessera {

/// What is printed: an object for programs with the plan, or the verdict and what follows it.
struct KeptAnswer {
  Document document;
  std::string verdict, details;
};

/// The cache of the answers. Requests are equal in their graph, cluster, constraints and options,
/// and in this program.
class KeptAnswers {
 public:
  ///   folder  nullopt: nothing is found and nothing is kept
  explicit KeptAnswers(const std::optional<std::filesystem::path>& folder)
      : cache_(folder, "answer") {}

  /// nullopt where there is none, or its file is damaged.
  std::optional<KeptAnswer> find(const Planned& planned) const;
  void keep(const Planned& planned, const KeptAnswer& answer) const;

 private:
  PlanCache cache_;
};

}  // namespace tessera
