#include "compiler/lower/redundant_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/text/count_text.h"
#include "base/text/text.h"
#include "ir/ops/operator.h"

namespace tessera {
namespace {

/// Ops that have something in common, and the one of them that has the most flops.
struct OpGroup {
  int64_t count = 0;
  double flops = 0;
  OpId largest{-1};
  double flops_of_largest = -1;

  void add(OpId op, double flops_of_op, double share = 1) {
    ++count;
    flops += share * flops_of_op;
    if (flops_of_op <= flops_of_largest) return;
    largest = op;
    flops_of_largest = flops_of_op;
  }
};

std::string percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

/// Does the rank at `coordinate` have no part of what `split` divides?
bool is_empty(const Split& split, const Coordinate& coordinate) {
  return !split.axes.empty() && std::ranges::all_of(split.ranges_at(coordinate), &Range::empty);
}

/// "rank 3", "ranks 4 to 7", "ranks 1, 3 and 5".
std::string ranks_text(const std::set<Rank>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", *ranks.begin());
  const bool has_gaps = *ranks.rbegin() - *ranks.begin() + 1 != std::ssize(ranks);
  if (!has_gaps && ranks.size() > 2)
    return fmt::format("ranks {} to {}", *ranks.begin(), *ranks.rbegin());
  const std::vector<Rank> list(ranks.begin(), ranks.end());
  return fmt::format("ranks {} and {}", fmt::join(list.begin(), list.end() - 1, ", "), list.back());
}

class WasteSearch {
 public:
  explicit WasteSearch(const PlacedGraph& placed)
      : graph_(placed.graph), sharded_(placed.sharded), ops_of_mesh_(sharded_.meshes.size()) {
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i) {
      const OpView op = view(graph_, graph_.op({i}));
      flops_.push_back(op.definition->work(op).flops.value());
      all_flops_ += flops_.back();
      ops_of_mesh_[sharded_.stages.ops[i]].add({i}, flops_.back());
    }
  }

  std::vector<ShardingNote> run() {
    for (size_t mesh = 0; mesh < sharded_.meshes.size(); ++mesh) {
      if (ops_of_mesh_[mesh].count == 0) {
        add_empty_mesh(mesh);
        continue;
      }
      find_repeated(mesh);
      find_idle(mesh);
    }
    join_axes();
    return std::move(notes_);
  }

 private:
  /// An axis that divides nothing, on the meshes where it does not.
  struct IdleAxis {
    std::string text;  // "'dp' divides nothing: its 2 ranks do the same work"
    std::vector<std::string> meshes;
  };

  const Mesh& mesh_at(size_t mesh) const { return *sharded_.meshes[mesh].mesh; }
  double share(double flops) const { return all_flops_ > 0 ? flops / all_flops_ : 0; }
  const std::string& name_of(OpId op) const { return graph_.op(op).name; }

  void add(OpId op, std::string text) {
    notes_.push_back(
        {ShardingNote::Kind::kWaste, op.index < 0 ? "" : name_of(op), std::move(text)});
  }

  void add_empty_mesh(size_t mesh) {
    const int ranks = std::max(1, mesh_at(mesh).size() / micro_batches(mesh));
    add({-1}, fmt::format("mesh '{}' has no op: its {} nothing", sharded_.meshes[mesh].name,
                          ranks == 1 ? "rank does" : counted(ranks, "rank") + " do"));
  }

  int micro_batches(size_t mesh) const {
    const auto axis = mesh_at(mesh).find_axis(kMicroBatchAxis);
    return axis ? static_cast<int>(mesh_at(mesh).shape()[*axis]) : 1;
  }

  /// "'blocks.0.up.dot' and 3 more ops".
  std::string ops_text(const OpGroup& ops) const {
    const std::string name = "'" + name_of(ops.largest) + "'";
    return ops.count == 1 ? name : name + " and " + counted(ops.count - 1, "more op");
  }

  void find_repeated(size_t mesh) {
    const Mesh& ranks = mesh_at(mesh);
    for (int axis = 0; axis < ranks.axis_count(); ++axis) {
      if (ranks.shape()[axis] == 1 || ranks.axes()[axis] == kMicroBatchAxis) continue;
      OpGroup repeated;
      for (int i = 0; i < static_cast<int>(flops_.size()); ++i)
        if (sharded_.stages.ops[i] == static_cast<int>(mesh) && !sharded_.at(OpId{i}).uses(axis))
          repeated.add({i}, flops_[i]);
      const std::string& name = ranks.axes()[axis];
      const std::string count = counted(ranks.shape()[axis], "rank");
      if (repeated.count == ops_of_mesh_[mesh].count)
        add_axis(fmt::format("'{}' divides nothing: its {} do the same work", name, count), mesh);
      else if (share(repeated.flops) > kRedundantWorkShare)
        add(repeated.largest,
            fmt::format("the {} of axis '{}' all compute {} with the same data, {} of the flops of "
                        "a step",
                        count, name, ops_text(repeated), percent(share(repeated.flops))));
    }
  }

  void add_axis(std::string text, size_t mesh) {
    const auto known = std::ranges::find(idle_axes_, text, &IdleAxis::text);
    IdleAxis& axis =
        known == idle_axes_.end() ? idle_axes_.emplace_back(IdleAxis{std::move(text), {}}) : *known;
    axis.meshes.push_back(sharded_.meshes[mesh].name);
  }

  void join_axes() {
    for (const IdleAxis& axis : idle_axes_) {
      const bool is_everywhere = axis.meshes.size() == sharded_.meshes.size();
      add({-1}, is_everywhere ? "axis " + axis.text
                              : fmt::format("on mesh '{}' axis {}", fmt::join(axis.meshes, "', '"),
                                            axis.text));
    }
  }

  /// The first factor of which some rank may have no part: the lightest one has none.
  std::optional<size_t> empty_factor(OpId op, const std::vector<Split>& splits) const {
    const Coordinate lightest = sharded_.at(op).mesh->smallest_shard_coordinate();
    for (size_t i = 0; i < splits.size(); ++i)
      if (is_empty(splits[i], lightest)) return i;
    return std::nullopt;
  }

  void find_idle(size_t mesh) {
    std::map<Rank, OpGroup> idle;                  // by rank, without the axis of micro-batches
    std::optional<std::pair<OpId, size_t>> cause;  // the most flops, and the factor
    for (int i = 0; i < static_cast<int>(flops_.size()); ++i) {
      if (sharded_.stages.ops[i] != static_cast<int>(mesh)) continue;
      const std::vector<Split> splits = factor_splits(sharded_.rules[i], sharded_.at(OpId{i}));
      const std::optional<size_t> factor = empty_factor({i}, splits);
      if (!factor) continue;
      if (!cause || flops_[i] > flops_[cause->first.index]) cause = {OpId{i}, *factor};
      add_idle_ranks({i}, splits, mesh, idle);
    }
    if (cause) add_idle(mesh, idle, *cause);
  }

  void add_idle_ranks(OpId op, const std::vector<Split>& splits, size_t mesh,
                      std::map<Rank, OpGroup>& idle) const {
    const Mesh& ranks = mesh_at(mesh);
    const int times = micro_batches(mesh), per_time = ranks.size() / times;
    std::vector<int> empty(per_time, 0);  // the number of micro-batches without a part
    for (int at = 0; at < ranks.size(); ++at) {
      const Coordinate coordinate = ranks.coordinate_at(at);
      const bool has_none = std::ranges::any_of(
          splits, [&](const Split& split) { return is_empty(split, coordinate); });
      empty[at % per_time] += has_none ? 1 : 0;
    }
    for (int at = 0; at < per_time; ++at)
      if (empty[at] > 0)
        idle[ranks.ranks()[at]].add(op, flops_[op.index],
                                    static_cast<double>(empty[at]) / static_cast<double>(times));
  }

  void add_idle(size_t mesh, const std::map<Rank, OpGroup>& idle,
                const std::pair<OpId, size_t>& cause) {
    std::map<double, std::set<Rank>> by_flops;
    for (const auto& [rank, ops] : idle) by_flops[ops.flops].insert(rank);
    for (const auto& [flops, ranks] : by_flops) {
      const OpGroup& ops = idle.at(*ranks.begin());
      const bool is_all = flops >= ops_of_mesh_[mesh].flops;
      if (!is_all && share(flops) <= kRedundantWorkShare) continue;
      const bool is_one = ranks.size() == 1;
      add(cause.first,
          fmt::format("{} {} no part of {}{}: {}", ranks_text(ranks), is_one ? "has" : "have",
                      is_all ? "any op" : ops_text(ops),
                      is_all ? "" : ", " + percent(share(flops)) + " of the flops of a step",
                      cause_text(cause.first, cause.second)));
    }
  }

  /// "axis tp=8 divides a dim of 4 of 'blocks.0.attn.scores'".
  std::string cause_text(OpId op, size_t factor) const {
    const OpSharding& sharding = sharded_.at(op);
    std::vector<std::string> axes;
    for (int axis : sharding.factor_axes[factor]) axes.push_back(axis_text(*sharding.mesh, axis));
    return fmt::format("{} a dim of {} of '{}'",
                       axes.size() == 1 ? "axis " + axes.front() + " divides"
                                        : "axes " + join(axes, " ") + " divide",
                       sharded_.rules[op.index].factors[factor].extent, name_of(op));
  }

  const Graph& graph_;
  const ShardedGraph& sharded_;
  std::vector<double> flops_;  // by op, of the whole op
  double all_flops_ = 0;
  std::vector<OpGroup> ops_of_mesh_;
  std::vector<IdleAxis> idle_axes_;
  std::vector<ShardingNote> notes_;
};

}  // namespace

std::vector<ShardingNote> redundant_work_notes(const PlacedGraph& placed) {
  return WasteSearch(placed).run();
}

std::vector<ShardingNote> notes_of(const PlacedGraph& placed) {
  std::vector<ShardingNote> notes = placed.sharded.notes;
  for (ShardingNote& note : redundant_work_notes(placed)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace tessera
