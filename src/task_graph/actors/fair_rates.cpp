#include "task_graph/actors/fair_rates.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

}  // namespace

FairRates::FairRates(IndexedVector<ResourceId, Resource> resources)
    : resources_(std::move(resources)), shared_(resources_.size()) {
  for (const Resource& resource : resources_)
    ensure(resource.capacity > 0, "resource '" + resource.name + "' has a capacity");
}

FlowId FairRates::begin(const Flow& flow, int64_t amount, int64_t now) {
  ensure(amount > 0 && flow.limit > 0, "a flow has an amount and may move");
  ensure(!flow.uses.empty() || flow.limit != kNoLimit, "a flow without resources has a limit");
  if (free_.empty()) free_.push_back(active_.push_back({}));
  const FlowId id = free_.back();
  free_.pop_back();
  Active& active = active_[id];
  active.flow = &flow;
  active.number = begun_++;
  active.rate = 0;
  active.settled = now;
  active.left = static_cast<Wide>(amount) * kNanosecondsPerSecond;
  active.places.clear();
  for (int use = 0; use < std::ssize(flow.uses); ++use) {
    const ResourceId resource = flow.uses[use].resource;
    active.places.push_back(shared_.at(resource).flows.size());
    shared_[resource].flows.emplace_back(id, use);
    touch(resource);
  }
  if (flow.uses.empty()) set_rate(id, flow.limit, now);
  return id;
}

void FairRates::touch(ResourceId resource) {
  if (std::exchange(shared_[resource].is_changed, true)) return;
  changed_.push_back(resource);
}

void FairRates::leave(FlowId id) {
  Active& active = active_[id];
  for (size_t use = 0; use < active.places.size(); ++use) {
    const ResourceId resource = active.flow->uses[use].resource;
    auto& flows = shared_[resource].flows;
    const auto [last, use_of_last] = flows.back();
    flows[active.places[use]] = flows.back();
    active_[last].places[use_of_last] = active.places[use];
    flows.pop_back();
    touch(resource);
  }
  ++active.version;
  free_.push_back(id);
}

void FairRates::update(int64_t now) {
  if (changed_.empty()) return;
  std::vector<FlowId> flows;
  std::vector<ResourceId> resources;
  reach(flows, resources);
  fill(std::move(flows), resources, now);
  for (ResourceId resource : resources) shared_[resource].is_reached = false;
}

/// The resources that changed and all that is connected to them.
void FairRates::reach(std::vector<FlowId>& flows, std::vector<ResourceId>& resources) {
  const auto add = [&](ResourceId resource) {
    if (std::exchange(shared_[resource].is_reached, true)) return;
    resources.push_back(resource);
  };
  for (ResourceId resource : changed_) {
    add(resource);
    shared_[resource].is_changed = false;
  }
  changed_.clear();
  for (size_t next = 0; next < resources.size(); ++next) {
    Shared& shared = shared_[resources[next]];
    shared.left = resources_[resources[next]].capacity;
    shared.load = 0;
    for (const auto& [flow, use] : shared.flows) {
      shared.load += active_[flow].flow->uses[use].count;
      if (std::exchange(active_[flow].is_reached, true)) continue;
      flows.push_back(flow);
      for (const ResourceUse& other : active_[flow].flow->uses) add(other.resource);
    }
  }
}

/// What each flow without a new rate may have of the resource.
int64_t FairRates::share(ResourceId resource) const {
  return std::max<int64_t>(shared_[resource].left / shared_[resource].load, 1);
}

/// Progressive filling: the rates of all flows grow together. At each level the flows of the
/// resources that are used up, and those that have reached their limits, keep their rates. All of
/// them are found before any is subtracted, so that the order does not matter.
void FairRates::fill(std::vector<FlowId> flows, const std::vector<ResourceId>& resources,
                     int64_t now) {
  const auto limit = [&](FlowId flow) { return active_[flow].flow->limit; };
  std::sort(flows.begin(), flows.end(), [&](FlowId a, FlowId b) { return limit(a) < limit(b); });
  // A share only grows, so one in the queue is a lower bound.
  std::priority_queue<Share, std::vector<Share>, std::greater<>> shares;
  for (ResourceId resource : resources)
    if (shared_[resource].load > 0) shares.emplace(share(resource), resource);
  std::vector<FlowId> settled;
  const auto settle = [&](FlowId flow) {
    if (std::exchange(active_[flow].is_reached, false)) settled.push_back(flow);
  };
  for (auto next = flows.begin(); next != flows.end();) {
    if (!active_[*next].is_reached) {
      ++next;
      continue;
    }
    const int64_t level = std::min(limit(*next), shares.top().first);
    while (next != flows.end() && limit(*next) == level) settle(*next++);
    while (!shares.empty() && shares.top().first == level) {
      const ResourceId resource = shares.top().second;
      shares.pop();
      if (shared_[resource].load == 0) continue;
      if (const int64_t now_share = share(resource); now_share > level) {
        shares.emplace(now_share, resource);
        continue;
      }
      for (const auto& [flow, use] : shared_[resource].flows) settle(flow);
    }
    for (FlowId flow : settled) {
      set_rate(flow, level, now);
      for (const ResourceUse& use : active_[flow].flow->uses) {
        shared_[use.resource].left -= level * use.count;
        shared_[use.resource].load -= use.count;
      }
    }
    settled.clear();
  }
}

void FairRates::set_rate(FlowId id, int64_t rate, int64_t now) {
  Active& active = active_[id];
  if (active.rate == rate) return;
  active.left -= static_cast<Wide>(active.rate) * (now - active.settled);
  active.left = std::max<Wide>(active.left, 0);
  active.settled = now;
  active.rate = rate;
  ++active.version;
  const Wide duration = (active.left + rate - 1) / rate;
  ensure(duration < kNever - now, "a flow ends");
  ends_.push({now + static_cast<int64_t>(duration), active.number, id, active.version});
}

void FairRates::drop_outdated_ends() {
  while (!ends_.empty() && ends_.top().version != active_[ends_.top().flow].version) ends_.pop();
}

int64_t FairRates::next_end() {
  drop_outdated_ends();
  return ends_.empty() ? kNever : ends_.top().time;
}

std::vector<FlowId> FairRates::end_flows(int64_t now) {
  std::vector<FlowId> ended;
  while (next_end() <= now) {
    ended.push_back(ends_.top().flow);
    leave(ended.back());
  }
  return ended;
}

}  // namespace tessera
