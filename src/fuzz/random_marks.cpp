// Random meshes and legal marks.
#include <algorithm>

#include "base/text.h"
#include "fuzz/dice.h"
#include "fuzz/random_program.h"

namespace tessera::fuzz {
namespace {

/// `P("x", None, ("y","z"))`.
std::string spec_text(const ProcessMesh& mesh, const std::vector<std::vector<int>>& dim_axes) {
  std::vector<std::string> entries;
  for (const auto& axes : dim_axes) {
    std::vector<std::string> names;
    for (int axis : axes) names.push_back("\"" + mesh.axes()[static_cast<size_t>(axis)] + "\"");
    if (names.empty()) entries.emplace_back("None");
    else entries.push_back(names.size() == 1 ? names.front() : "(" + join(names, ",") + ")");
  }
  return "P(" + join(entries, ", ") + ")";
}

class MarkMaker {
 public:
  MarkMaker(uint64_t seed, const Graph& graph, MeshPtr mesh) : dice_(seed, "marks"), graph_(graph), mesh_(std::move(mesh)) {
    // Each variable shares one placement with its next value: only one of them is marked.
    group_.resize(graph.values().size());
    for (size_t i = 0; i < group_.size(); ++i) group_[i] = static_cast<int>(i);
    for (const Variable& variable : graph.variables())
      if (variable.next) join_groups(variable.value.index, variable.next->index);
    marked_.assign(group_.size(), false);
  }

  std::vector<Mark> make() {
    const double sources = dice_.pick(std::vector<double>{0.3, 0.6, 0.9});
    const double others = dice_.pick(std::vector<double>{0.0, 0.05, 0.2});
    for (int i = 0; i < static_cast<int>(graph_.values().size()); ++i)
      if (dice_.chance(graph_.value({i}).producer.index < 0 ? sources : others)) mark_value({i});
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i)
      if (dice_.chance(others)) mark_op({i});
    dice_.shuffle(marks_);
    return marks_;
  }

 private:
  int group_of(int value) {
    while (group_[static_cast<size_t>(value)] != value) value = group_[static_cast<size_t>(value)];
    return value;
  }
  void join_groups(int a, int b) { group_[static_cast<size_t>(group_of(a))] = group_of(b); }

  /// Each axis to one of `count` places or to none.
  std::vector<std::vector<int>> scatter_axes(int count, const std::vector<bool>& allowed) {
    std::vector<std::vector<int>> places(static_cast<size_t>(count));
    std::vector<int> axes;
    for (int axis = 0; axis < mesh_->axis_count(); ++axis) axes.push_back(axis);
    dice_.shuffle(axes);
    for (int axis : axes) {
      if (count == 0 || dice_.chance(0.25)) continue;
      const auto place = static_cast<size_t>(dice_.below(count));
      if (allowed[place]) places[place].push_back(axis);
    }
    return places;
  }

  void mark_value(ValueId id) {
    if (marked_[static_cast<size_t>(group_of(id.index))]) return;
    marked_[static_cast<size_t>(group_of(id.index))] = true;
    const int rank = graph_.type(id).shape.size();
    const auto axes = scatter_axes(rank, std::vector<bool>(static_cast<size_t>(rank), true));
    marks_.push_back(shard_tensor(graph_.value(id).name, spec_text(*mesh_, axes), "case"));
  }

  /// Gives axes to factors, and says so by the placements of the inputs.
  void mark_op(OpId id) {
    const Op& op = graph_.op(id);
    if (op.inputs.empty()) return;
    const OpView seen = view(graph_, op);
    const ShardingRule rule = find_operator(op.kind).rule(seen);
    std::vector<bool> allowed;
    for (const Factor& factor : rule.factors) allowed.push_back(factor.kind != FactorKind::kWhole);
    OpSharding sharding = OpSharding::replicated(mesh_, rule);
    sharding.factor_axes = scatter_axes(static_cast<int>(rule.factors.size()), allowed);
    std::vector<std::string> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      std::vector<std::vector<int>> axes;
      for (const DimSharding& dim : input_attr(seen, rule, sharding, static_cast<int>(i)).dims) axes.push_back(dim.axes);
      inputs.push_back(spec_text(*mesh_, axes));
    }
    marks_.push_back(shard_op(op.name, "[" + join(inputs, ", ") + "]", "case"));
  }

  Dice dice_;
  const Graph& graph_;
  MeshPtr mesh_;
  std::vector<int> group_;
  std::vector<bool> marked_;  // by group
  std::vector<Mark> marks_;
};

}  // namespace

MeshPtr random_mesh(uint64_t seed) {
  Dice dice(seed, "mesh");
  const std::vector<std::string> meshes{"x=1 y=2", "x=2", "x=2 y=2", "x=2 y=2", "x=2 y=3", "x=1 y=5", "x=2 y=2 z=2", "x=4", "x=3"};
  return std::make_shared<const ProcessMesh>(parse_mesh(dice.pick(meshes)));
}

std::vector<Mark> random_marks(uint64_t seed, const Graph& graph, const MeshPtr& mesh) { return MarkMaker(seed, graph, mesh).make(); }

FuzzCase random_case(uint64_t seed) {
  constexpr int kAttempts = 50;
  FuzzCase result;
  result.seed = seed;
  result.exact = Dice(seed, "mode").chance(0.5);
  result.mesh = random_mesh(seed);
  // Values that leave the range of their mode: another program of the same seed.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    RandomProgram program = random_program(random_key(seed, "attempt " + std::to_string(attempt)), result.exact);
    result.graph = std::move(program.graph);
    result.fills = std::move(program.fills);
    if (result.exact ? in_exact_subset(result) : is_tame(result)) {
      result.marks = random_marks(seed, result.graph, result.mesh);
      return result;
    }
  }
  throw InternalError("no program of seed " + std::to_string(seed) + " stays in its range");
}

}  // namespace tessera::fuzz
