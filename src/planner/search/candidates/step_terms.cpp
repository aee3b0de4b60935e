#include "planner/search/candidates/step_terms.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/text/text.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

/// The machines of the ranks of a plan.
class RankMachines {
 public:
  RankMachines(const Cluster& cluster, const Plan& plan)
      : cluster_(cluster),
        meshes_(plan.placed()),
        deployment_(identity_mapping(cluster, plan.hardware())) {}

  /// Does an exchange over these axes, or "" between meshes, connect several machines?
  bool are_several(const std::string& axes) const {
    if (axes.empty()) return are_between_meshes();
    const std::vector<std::string> names = split_text(axes, ',');
    return std::ranges::any_of(names, [&](const std::string& name) { return are_on(name); });
  }

 private:
  int machine(Rank rank) const { return cluster_.machine(deployment_.device(rank)); }

  /// Does a group of the axis have ranks of several machines, in any mesh?
  bool are_on(std::string_view name) const {
    return std::ranges::any_of(meshes_, [&](const NamedMesh& named) {
      const std::optional<int> axis = named.mesh->find_axis(name);
      return axis && std::ranges::any_of(named.mesh->ranks(), [&](Rank rank) {
               Coordinate first = *named.mesh->coordinate_of(rank);
               first[*axis] = 0;
               return machine(named.mesh->rank_at(first)) != machine(rank);
             });
    });
  }

  bool are_between_meshes() const {
    for (size_t i = 1; i < meshes_.size(); ++i) {
      std::set<int> machines;
      for (size_t mesh : {i - 1, i})
        for (Rank rank : meshes_[mesh].mesh->ranks()) machines.insert(machine(rank));
      if (machines.size() > 1) return true;
    }
    return false;
  }

  const Cluster& cluster_;
  const Meshes meshes_;
  const Deployment deployment_;
};

}  // namespace

StepTerms step_terms(const Cluster& cluster, const EvaluatedCandidate& candidate) {
  const RankMachines machines(cluster, candidate.candidate.plan);
  StepTerms terms{.compute = candidate.parts.compute, .idle = candidate.parts.idle};
  for (const auto& [axes, time] : candidate.parts.exposed)
    (machines.are_several(axes) ? terms.between_machines : terms.within_machines) += time;
  return terms;
}

}  // namespace tessera
