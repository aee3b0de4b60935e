#include "cluster/mapping/internal/uniform_links.h"

#include <algorithm>

namespace tessera {

std::optional<UniformLinks> UniformLinks::from(const DeviceTree& tree) {
  if (tree.has_direct_links()) return std::nullopt;
  // Places of one shape have links of one bandwidth at each depth.
  for (Place p = 1; p < tree.size(); ++p)
    if (tree.shape(p) != tree.shape(0)) return std::nullopt;
  const size_t heights = tree.height();
  std::vector<double> latency(heights, -1);
  std::vector<int> widest(heights, 1);
  for (const DeviceTree::Node& node : tree.nodes()) {
    double& known = latency[node.height - 1];
    if (known >= 0 && known != node.latency) return std::nullopt;
    known = node.latency;
    if (node.parent >= 0 && tree.nodes()[node.parent].height != node.height + 1)
      return std::nullopt;
    if (node.children.empty() && node.height != 1) return std::nullopt;
    const int children =
        node.children.empty() ? node.size() : static_cast<int>(node.children.size());
    widest[node.height - 1] = std::max(widest[node.height - 1], children);
  }
  UniformLinks links;
  std::vector<int> shift{0};
  links.level_of_bit_ = {0};
  for (size_t h = 0; h < heights; ++h) {
    const int bits = std::bit_width(static_cast<unsigned>(widest[h] - 1));
    shift.push_back(shift.back() + bits);
    for (int bit = 0; bit < bits; ++bit) links.level_of_bit_.push_back(static_cast<int>(h));
  }
  constexpr int kBits = 64;
  if (shift.back() > kBits) return std::nullopt;
  links.code_.resize(tree.size(), 0);
  for (const DeviceTree::Node& node : tree.nodes()) {
    const int at = shift[node.height - 1];
    for (Place p = node.begin; p < node.end && node.children.empty(); ++p)
      links.code_[p] |= static_cast<uint64_t>(p - node.begin) << at;
    for (size_t child = 0; child < node.children.size(); ++child)
      for (Place p = tree.nodes()[node.children[child]].begin;
           p < tree.nodes()[node.children[child]].end; ++p)
        links.code_[p] |= static_cast<uint64_t>(child) << at;
  }
  links.prices_.resize(heights);
  for (const DeviceTree::Node& node : tree.nodes()) {
    if (node.size() < 2) continue;
    const Place last =
        node.children.empty() ? node.begin + 1 : tree.nodes()[node.children.back()].begin;
    if (last > node.begin) links.prices_[node.height - 1] = tree.link(node.begin, last);
  }
  return links;
}

}  // namespace tessera
