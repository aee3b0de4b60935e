#include "simulator/clock/internal/rank_classes.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"

namespace tessera {
namespace {

/// Lists of numbers, one after the other.
class Signatures {
 public:
  void add(int64_t value) { values_.push_back(value); }
  void sort_from(size_t begin) { std::sort(values_.begin() + begin, values_.end()); }
  void remove_repeated_from(size_t begin) {
    values_.erase(std::unique(values_.begin() + begin, values_.end()), values_.end());
  }
  size_t length() const { return values_.size(); }
  void end() { ends_.push_back(values_.size()); }

  /// Numbers equal lists alike, in the order of their first occurrence.
  ///   returns  how many differ
  int number(std::vector<int>& colors) const {
    const auto hash = [this](size_t i) {
      Hasher hasher;
      hasher.add_each(list(i));
      return hasher.value();
    };
    const auto equal = [this](size_t i, size_t k) {
      const auto a = list(i), b = list(k);
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    };
    std::unordered_map<size_t, int, decltype(hash), decltype(equal)> numbers(64, hash, equal);
    colors.resize(ends_.size());
    for (size_t i = 0; i < ends_.size(); ++i)
      colors[i] = numbers.try_emplace(i, static_cast<int>(numbers.size())).first->second;
    return static_cast<int>(numbers.size());
  }

 private:
  std::span<const int64_t> list(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(values_).subspan(begin, ends_[i] - begin);
  }

  std::vector<int64_t> values_;
  std::vector<size_t> ends_;
};

/// Refines colors of flows, resources and ranks, by turns, until no signature splits a color.
class Refinement {
 public:
  Refinement(const RankFacts& facts, const ExchangeLinks& links, const TaskGraph& graph,
             const IndexedVector<ResourceId, Resource>& resources)
      : facts_(facts), links_(links), graph_(graph), resource_count_(resources.size()) {
    color_ranks();
    Signatures signatures;
    for (const Resource& resource : resources) {
      signatures.add(resource.capacity);
      signatures.add(static_cast<int64_t>(resource.kind));
      signatures.end();
    }
    signatures.number(resources_);
  }

  void refine() {
    int ranks = 0, resources = 0;
    while (true) {
      refine_flows();
      const int more_resources = refine_resources(), more_ranks = refine_ranks();
      if (more_ranks == ranks && more_resources == resources) return;
      ranks = more_ranks;
      resources = more_resources;
    }
  }

  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<int>& resources() const { return resources_; }

 private:
  int rank_count() const { return static_cast<int>(facts_.kind.size()); }

  /// Calls visit(rank, task, flow) for all flows of all demands, always in the same order.
  template <typename Visit>
  void for_each_flow(const Visit& visit) const {
    for (int rank = 0; rank < rank_count(); ++rank)
      for (const RankDemand& of_task : facts_.demands[rank])
        for (const Flow& flow : of_task.demand.flows) visit(rank, of_task.task, flow);
  }

  /// By what ranks demand beside their flows.
  void color_ranks() {
    Signatures signatures;
    for (int rank = 0; rank < rank_count(); ++rank) {
      signatures.add(facts_.kind[rank]);
      for (const RankDemand& of_task : facts_.demands[rank]) {
        signatures.add(of_task.task.value());
        signatures.add(of_task.demand.fixed);
      }
      signatures.end();
    }
    signatures.number(ranks_);
  }

  /// The order of the flows of an act does not matter.
  void refine_flows() {
    Signatures signatures;
    for_each_flow([&](int rank, TaskId task, const Flow& flow) {
      for (int64_t value : {int64_t{ranks_[rank]}, int64_t{task.value()}, flow.amount, flow.limit})
        signatures.add(value);
      const size_t begin = signatures.length();
      for (const ResourceUse& use : flow.uses) {
        ensure(use.count == 1, "the flows of a demand count once");
        signatures.add(resources_.at(use.resource.value()));
      }
      signatures.sort_from(begin);
      signatures.end();
    });
    signatures.number(flows_);
  }

  int refine_resources() {
    std::vector<std::vector<int>> users(resource_count_);
    size_t next = 0;
    for_each_flow([&](int, TaskId, const Flow& flow) {
      const int color = flows_[next++];
      for (const ResourceUse& use : flow.uses) users[use.resource.value()].push_back(color);
    });
    Signatures signatures;
    for (int i = 0; i < resource_count_; ++i) {
      signatures.add(resources_[i]);
      const size_t begin = signatures.length();
      for (int color : users[i]) signatures.add(color);
      signatures.sort_from(begin);
      signatures.end();
    }
    return signatures.number(resources_);
  }

  int refine_ranks() {
    Signatures signatures;
    auto color = flows_.begin();
    for (int rank = 0; rank < rank_count(); ++rank) {
      signatures.add(ranks_[rank]);
      const size_t begin = signatures.length();
      for (const RankDemand& of_task : facts_.demands[rank])
        for (size_t i = 0; i < of_task.demand.flows.size(); ++i) signatures.add(*color++);
      signatures.sort_from(begin);
      signatures.add(-1);
      add_peers(rank, signatures);
      signatures.end();
    }
    return signatures.number(ranks_);
  }

  /// From how many ranks of a color it receives does not matter, since they act at the same time;
  /// but a message to another rank takes time, and one to itself does not.
  void add_peers(int rank, Signatures& signatures) const {
    const auto add = [&](std::span<const int> peers) {
      const size_t begin = signatures.length();
      for (int peer : peers) signatures.add(2 * ranks_[peer] + (peer == rank ? 1 : 0));
      signatures.sort_from(begin);
      signatures.remove_repeated_from(begin);
      signatures.add(-1);
    };
    for (TaskId exchange : links_.distinct())
      for (size_t part = 0; part < graph_.tasks[exchange].parts.size(); ++part) {
        add(links_.senders(exchange, part, rank));
        add(links_.receivers(exchange, part, rank));
      }
  }

  const RankFacts& facts_;
  const ExchangeLinks& links_;
  const TaskGraph& graph_;
  const int resource_count_;
  std::vector<int> ranks_, resources_, flows_;  // colors
};

RankClasses classes_of(const std::vector<int>& ranks, const std::vector<int>& colors,
                       const IndexedVector<ResourceId, Resource>& resources) {
  RankClasses classes;
  classes.class_of = ranks;
  for (int rank = 0; rank < std::ssize(ranks); ++rank) {
    if (ranks[rank] == classes.count()) {
      classes.representatives.push_back(rank);
      classes.sizes.push_back(0);
    }
    ++classes.sizes[ranks[rank]];
  }
  for (ResourceId resource : resources.indices()) {
    const ResourceId color(colors[resource.value()]);
    classes.resource_class_of.push_back(color);
    if (!classes.resources.contains(color)) {
      classes.resources.push_back(resources[resource]);
      classes.resource_counts.push_back(0);
    }
    ++classes.resource_counts[color];
  }
  return classes;
}

std::vector<int> numbers_below(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Of flows that are equal, one remains, which counts for all of them; and so for the resources of
/// one class that a flow passes.
///   requires  `flows` and their uses are sorted
void merge_alike(std::vector<Flow>& flows) {
  std::vector<Flow> merged;
  for (auto first = flows.begin(); first != flows.end();) {
    const auto last = std::upper_bound(first, flows.end(), *first);
    Flow& flow = merged.emplace_back(Flow{first->amount, {}, first->limit});
    for (const ResourceUse& use : first->uses) {
      if (flow.uses.empty() || flow.uses.back().resource != use.resource)
        flow.uses.push_back({use.resource, 0});
      flow.uses.back().count += last - first;
    }
    first = last;
  }
  flows = std::move(merged);
}

}  // namespace

RankClasses distinct_ranks(int ranks, const IndexedVector<ResourceId, Resource>& resources) {
  return classes_of(numbers_below(ranks), numbers_below(resources.size()), resources);
}

RankClasses find_rank_classes(const RankFacts& facts, const ExchangeLinks& links,
                              const TaskGraph& graph,
                              const IndexedVector<ResourceId, Resource>& resources) {
  Refinement refinement(facts, links, graph, resources);
  refinement.refine();
  return classes_of(refinement.ranks(), refinement.resources(), resources);
}

ActDemand on_classes(const ActDemand& demand, int rank_class, const RankClasses& classes) {
  ActDemand made{demand.fixed, {}};
  for (const Flow& flow : demand.flows) {
    Flow of_class{flow.amount, {}, flow.limit};
    for (const ResourceUse& use : flow.uses)
      of_class.uses.push_back({classes.resource_class_of.at(use.resource), 1});
    std::sort(of_class.uses.begin(), of_class.uses.end());
    made.flows.push_back(std::move(of_class));
  }
  std::sort(made.flows.begin(), made.flows.end());
  merge_alike(made.flows);
  for (Flow& flow : made.flows)
    for (ResourceUse& use : flow.uses) {
      const int64_t passing = use.count * classes.sizes[rank_class];
      ensure(passing % classes.resource_counts[use.resource] == 0,
             "as many flows of a class pass each resource of a class");
      use.count = passing / classes.resource_counts[use.resource];
    }
  return made;
}

}  // namespace tessera
