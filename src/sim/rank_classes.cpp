#include "sim/rank_classes.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"

namespace tessera {
namespace {

using Signature = std::vector<int64_t>;

/// Numbers equal signatures alike, in the order of their first occurrence.
///   returns  how many differ
int number(const std::vector<Signature>& signatures, std::vector<int>& colors) {
  const auto hash = [](const Signature* signature) {
    Hasher hasher;
    hasher.add_each(*signature);
    return hasher.value();
  };
  const auto equal = [](const Signature* a, const Signature* b) { return *a == *b; };
  std::unordered_map<const Signature*, int, decltype(hash), decltype(equal)> numbers(
      signatures.size(), hash, equal);
  for (size_t i = 0; i < signatures.size(); ++i)
    colors[i] = numbers.try_emplace(&signatures[i], static_cast<int>(numbers.size())).first->second;
  return static_cast<int>(numbers.size());
}

/// Refines colors of ranks and resources, by turns, until no signature splits a color.
class Refinement {
 public:
  Refinement(const RankFacts& facts, const ExchangeLinks& links, const TaskGraph& graph,
             const IndexedVector<ResourceId, Resource>& resources)
      : facts_(facts),
        links_(links),
        graph_(graph),
        ranks_(facts.kind.size(), 0),
        resources_(resources.size(), 0) {
    std::vector<Signature> signatures;
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      signatures.push_back(own_signature(static_cast<int>(rank)));
    number(signatures, ranks_);
    signatures.clear();
    for (const Resource& resource : resources)
      signatures.push_back({resource.capacity, static_cast<int64_t>(resource.kind)});
    number(signatures, resources_);
  }

  void refine() {
    int ranks = 0, resources = 0;
    while (true) {
      const int more_ranks = refine_ranks(), more_resources = refine_resources();
      if (more_ranks == ranks && more_resources == resources) return;
      ranks = more_ranks;
      resources = more_resources;
    }
  }

  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<int>& resources() const { return resources_; }

 private:
  /// What the rank demands, without whom it shares it with.
  Signature own_signature(int rank) const {
    Signature own{facts_.kind[rank]};
    for (const RankDemand& of_task : facts_.demands[rank]) {
      own.insert(own.end(),
                 {of_task.task.value(), of_task.demand.fixed, std::ssize(of_task.demand.flows)});
      for (const Flow& flow : of_task.demand.flows)
        own.insert(own.end(), {flow.amount, flow.limit, std::ssize(flow.uses)});
    }
    return own;
  }

  int refine_ranks() {
    std::vector<Signature> signatures(ranks_.size());
    for (int rank = 0; rank < std::ssize(ranks_); ++rank) {
      signatures[rank].push_back(ranks_[rank]);
      add_resources(rank, signatures[rank]);
      add_peers(rank, signatures[rank]);
    }
    return number(signatures, ranks_);
  }

  void add_resources(int rank, Signature& signature) const {
    for (const RankDemand& of_task : facts_.demands[rank])
      for (const Flow& flow : of_task.demand.flows) {
        const auto first = signature.insert(signature.end(), flow.uses.size(), 0);
        std::transform(flow.uses.begin(), flow.uses.end(), first,
                       [&](const ResourceUse& use) { return resources_[use.resource.value()]; });
        std::sort(first, signature.end());
      }
  }

  /// Of how many ranks of a color it receives does not matter, since they act at the same time; but
  /// a message to another rank takes time, and one to itself does not.
  void add_peers(int rank, Signature& signature) const {
    const auto add = [&](std::span<const int> peers) {
      const auto begin = std::ssize(signature);
      for (int peer : peers) signature.push_back(2 * ranks_[peer] + (peer == rank ? 1 : 0));
      std::sort(signature.begin() + begin, signature.end());
      signature.erase(std::unique(signature.begin() + begin, signature.end()), signature.end());
      signature.push_back(-1);
    };
    for (TaskId exchange : links_.distinct())
      for (size_t part = 0; part < graph_.tasks[exchange].parts.size(); ++part) {
        add(links_.senders(exchange, part, rank));
        add(links_.receivers(exchange, part, rank));
      }
  }

  int refine_resources() {
    std::vector<Signature> signatures(resources_.size());
    const int64_t colors = std::ssize(ranks_), tasks = graph_.tasks.size();
    for (int rank = 0; rank < std::ssize(ranks_); ++rank)
      for (const RankDemand& of_task : facts_.demands[rank])
        for (int64_t flow = 0; flow < std::ssize(of_task.demand.flows); ++flow)
          for (const ResourceUse& use : of_task.demand.flows[flow].uses)
            signatures[use.resource.value()].push_back(
                (flow * tasks + of_task.task.value()) * colors + ranks_[rank]);
    for (size_t i = 0; i < signatures.size(); ++i) {
      std::sort(signatures[i].begin(), signatures[i].end());
      signatures[i].push_back(resources_[i]);
    }
    return number(signatures, resources_);
  }

  const RankFacts& facts_;
  const ExchangeLinks& links_;
  const TaskGraph& graph_;
  std::vector<int> ranks_, resources_;  // colors
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

}  // namespace

RankClasses distinct_ranks(int ranks, const IndexedVector<ResourceId, Resource>& resources) {
  return classes_of(numbers_below(ranks), numbers_below(resources.size()), resources);
}

RankClasses fold_ranks(const RankFacts& facts, const ExchangeLinks& links, const TaskGraph& graph,
                       const IndexedVector<ResourceId, Resource>& resources) {
  Refinement refinement(facts, links, graph, resources);
  refinement.refine();
  return classes_of(refinement.ranks(), refinement.resources(), resources);
}

ActDemand folded(const ActDemand& demand, int rank_class, const RankClasses& classes) {
  ActDemand made{demand.fixed, {}};
  for (const Flow& flow : demand.flows) {
    Flow& of_class = made.flows.emplace_back(Flow{flow.amount, {}, flow.limit});
    for (const ResourceUse& use : flow.uses) {
      const ResourceId resource = classes.resource_class_of.at(use.resource);
      const auto found =
          std::find_if(of_class.uses.begin(), of_class.uses.end(),
                       [&](const auto& other) { return other.resource == resource; });
      if (found == of_class.uses.end())
        of_class.uses.push_back({resource, use.count});
      else
        found->count += use.count;
    }
    for (ResourceUse& use : of_class.uses) {
      const int64_t passing = use.count * classes.sizes[rank_class];
      ensure(passing % classes.resource_counts[use.resource] == 0,
             "as many flows of a class pass each resource of a class");
      use.count = passing / classes.resource_counts[use.resource];
    }
  }
  return made;
}

}  // namespace tessera
