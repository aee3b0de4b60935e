#include "compiler/rewrite/internal/min_cut.h"

#include <algorithm>

namespace tessera {

void FlowNetwork::add_edge(int from, int to, int64_t capacity) {
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

/// The distances from the source over edges with capacity left. Is the sink reached?
bool FlowNetwork::find_levels(int source, int sink) {
  level_.assign(edges_of_.size(), -1);
  level_[source] = 0;
  std::vector<int> queue = {source};
  for (size_t i = 0; i < queue.size(); ++i)
    for (int e : edges_of_[queue[i]]) {
      const Edge& edge = edges_[e];
      if (edge.left == 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  return level_[sink] >= 0;
}

/// Pushes flow along one path to the sink that the levels allow; 0 when there is none left.
int64_t FlowNetwork::push(int source, int sink) {
  std::vector<int> path;  // edges
  int node = source;
  while (node != sink) {
    size_t& next = next_[node];
    while (next < edges_of_[node].size()) {
      const Edge& edge = edges_[edges_of_[node][next]];
      if (edge.left > 0 && level_[edge.to] == level_[node] + 1) break;
      ++next;
    }
    if (next < edges_of_[node].size()) {
      path.push_back(edges_of_[node][next]);
      node = edges_[path.back()].to;
      continue;
    }
    if (path.empty()) return 0;
    node = edges_[path.back() ^ 1].to;
    ++next_[node];
    path.pop_back();
  }
  int64_t flow = kUnlimited;
  for (int e : path) flow = std::min(flow, edges_[e].left);
  for (int e : path) {
    edges_[e].left -= flow;
    edges_[e ^ 1].left += flow;
  }
  return flow;
}

std::vector<bool> FlowNetwork::sink_side(int source, int sink) {
  while (find_levels(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    while (push(source, sink) > 0) {
    }
  }
  std::vector<bool> reaches(edges_of_.size(), false);  // the sink, over edges with capacity left
  reaches[sink] = true;
  std::vector<int> queue = {sink};
  for (size_t i = 0; i < queue.size(); ++i)
    for (int e : edges_of_[queue[i]]) {
      const int from = edges_[e].to;
      if (edges_[e ^ 1].left == 0 || reaches[from]) continue;
      reaches[from] = true;
      queue.push_back(from);
    }
  return reaches;
}

}  // namespace tessera
