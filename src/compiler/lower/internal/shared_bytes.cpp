#include "compiler/lower/internal/shared_bytes.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace tessera {
namespace {

/// The end of entries that nothing shares bytes with.
constexpr int64_t kHidden = std::numeric_limits<int64_t>::min();

}  // namespace

SharedBytes::SharedBytes(const RegisterTable& registers, std::span<const RegisterIndex> list)
    : registers_(registers) {
  for (RegisterIndex reg : list) entries_.push_back({place_of(reg), reg});
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.place < b.place; });
  for (size_t i = 0; i < entries_.size(); ++i) entry_of_[entries_[i].reg] = i;
  latest_ends_.resize(4 * entries_.size());
  if (!entries_.empty()) set_latest_ends({0, 0, entries_.size()});
}

SharedBytes::Place SharedBytes::place_of(RegisterIndex index) const {
  const Register reg = registers_[index];
  if (reg.storage == Register::Storage::kVariable) return {reg.mesh, reg.variable};
  return {reg.mesh, -1, reg.offset, reg.offset + reg.size.value()};
}

int64_t SharedBytes::set_latest_ends(Node node) {
  return latest_ends_[node.index] =
             node.is_leaf() ? entries_[node.begin].place.end
                            : std::max(set_latest_ends(node.left()), set_latest_ends(node.right()));
}

void SharedBytes::find(Node node, size_t first, size_t limit, int64_t at,
                       std::vector<RegisterIndex>& found) const {
  if (node.end <= first || node.begin >= limit || latest_ends_[node.index] <= at) return;
  if (node.is_leaf()) {
    found.push_back(entries_[node.begin].reg);
    return;
  }
  find(node.left(), first, limit, at, found);
  find(node.right(), first, limit, at, found);
}

void SharedBytes::set_end(Node node, size_t entry, int64_t end) {
  if (node.is_leaf()) {
    latest_ends_[node.index] = end;
    return;
  }
  set_end(entry < node.left().end ? node.left() : node.right(), entry, end);
  latest_ends_[node.index] =
      std::max(latest_ends_[node.left().index], latest_ends_[node.right().index]);
}

void SharedBytes::hide(RegisterIndex reg) {
  if (const auto found = entry_of_.find(reg); found != entry_of_.end())
    set_end({0, 0, entries_.size()}, found->second, kHidden);
}

void SharedBytes::show(RegisterIndex reg) {
  if (const auto found = entry_of_.find(reg); found != entry_of_.end())
    set_end({0, 0, entries_.size()}, found->second, entries_[found->second].place.end);
}

std::vector<RegisterIndex> SharedBytes::with(RegisterIndex reg) const {
  const Place place = place_of(reg);
  std::vector<RegisterIndex> found;
  if (entries_.empty()) return found;
  // After the first of its arena or variable come those that begin before its end, then others.
  const auto index_of_first_at = [&](int64_t begin) {
    const auto is_before = [&](const Entry& entry, int64_t limit) {
      return std::tie(entry.place.mesh, entry.place.variable, entry.place.begin) <
             std::tie(place.mesh, place.variable, limit);
    };
    return static_cast<size_t>(
        std::lower_bound(entries_.begin(), entries_.end(), begin, is_before) - entries_.begin());
  };
  find({0, 0, entries_.size()}, index_of_first_at(std::numeric_limits<int64_t>::min()),
       index_of_first_at(place.end), place.begin, found);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tessera
