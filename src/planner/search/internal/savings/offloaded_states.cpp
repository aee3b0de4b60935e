#include "planner/search/internal/savings/offloaded_states.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/plan/offload.h"
#include "compiler/plan/preset.h"
#include "planner/placement/search_policy.h"
#include "planner/search/internal/savings/saved_candidate.h"

namespace tessera {
namespace {

bool are_cores(const Cluster& cluster) {
  return std::ranges::all_of(cluster.description().types, [](const DeviceType& type) {
    return type.kind == HardwareKind::kCpu;
  });
}

/// The bytes of variables of a training step.
struct VariableBytes {
  explicit VariableBytes(const Graph& graph) {
    const std::set<std::string> names = offloaded_variables(graph, {Offload::Kind::kState, {}});
    for (const Variable& variable : graph.variables()) {
      const Bytes bytes = byte_size(graph.type(variable.value));
      if (!names.contains(graph.value(variable.value).name)) {
        others += bytes;
        continue;
      }
      state += bytes;
      largest = std::max(largest, bytes);
    }
  }

  /// Of the largest variables, and a little more, since plans say rounded numbers.
  Bytes window() const {
    return Bytes(kSearchPolicy.window_variables * largest.value() + largest.value() / 32);
  }

  Bytes state{0}, largest{0};  // of the optimizer
  Bytes others{0};
};

int64_t data_degree(const Plan& plan) {
  int64_t degree = 1;
  for (const NamedMesh& mesh : plan.meshes)
    if (const auto axis = mesh.mesh->find_axis(kDataAxis))
      degree = std::max(degree, mesh.mesh->shape()[*axis]);
  return degree;
}

/// What the fullest rank lacks beside the state that it keeps; 0 where it lacks nothing.
double missing_beside_state(const EvaluatedCandidate& each, const VariableBytes& bytes) {
  const int zero = each.candidate.zero.value_or(0);
  auto state = static_cast<double>(bytes.state.value());
  if (zero == 1 || zero == 2) state /= static_cast<double>(data_degree(each.candidate.plan));
  const double share = state / (state + static_cast<double>(bytes.others.value()));
  const RankMemoryNeed& need = each.fullest.memory;
  return std::max(static_cast<double>(each.fullest.missing().value()) -
                      share * static_cast<double>(need.variables.value()),
                  0.0);
}

Candidate offloaded(const Candidate& base, Bytes window) {
  const std::string decisions = "offload=state,offload_mib=" + mib_text(window);
  Candidate made = with_name_of(base, decisions);
  const Plan read = parse_preset("dp=1," + decisions).decisions;
  made.plan.offload = read.offload;
  made.plan.offload_window = read.offload_window;
  made.problem = base.problem;
  return made;
}

}  // namespace

std::vector<std::vector<Candidate>> with_offloaded_states(const PlanRequest& request,
                                                          const PlanConstraints& constraints,
                                                          const PlanSearchResult& known) {
  const VariableBytes bytes(request.graph);
  if (!are_cores(request.cluster) || bytes.state == Bytes(0) ||
      fixes_decision(constraints, "offload"))
    return {};
  std::vector<std::tuple<double, Seconds, const Candidate*>> bases;
  std::set<std::pair<uint64_t, int>> programs;
  for (const EvaluatedCandidate& each : known.candidates)
    if (!each.fits() && each.candidate.plan.offload == Offload() &&
        each.candidate.shorter.empty() && obeys(each.candidate, constraints) &&
        programs.emplace(each.program, each.ranks()).second)
      bases.emplace_back(missing_beside_state(each, bytes), each.step(), &each.candidate);
  std::ranges::stable_sort(bases, {}, [](const auto& base) {
    return std::pair(std::get<double>(base), std::get<Seconds>(base));
  });
  bases.resize(std::min(bases.size(), kSearchPolicy.offloaded_plans));
  std::vector<std::vector<Candidate>> lists;
  for (const Bytes window : {bytes.window(), Bytes(0)}) {
    lists.emplace_back();
    for (const auto& base : bases)
      lists.back().push_back(offloaded(*std::get<const Candidate*>(base), window));
  }
  return lists;
}

}  // namespace tessera
