#include "compiler/rewrite/internal/common_subexpressions.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace tessera {
namespace {

size_t combine(size_t hash, size_t other) {
  return hash ^ (other + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2));
}

size_t hash_of(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, double>) {
          return std::hash<uint64_t>()(std::bit_cast<uint64_t>(value));
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          size_t hash = value.size();
          for (int64_t item : value) hash = combine(hash, std::hash<int64_t>()(item));
          return hash;
        } else {
          return std::hash<T>()(value);
        }
      },
      attribute);
}

bool same_bits(const Attribute& a, const Attribute& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x && y) return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
  return a == b;
}

bool same_bits(const Attributes& a, const Attributes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_bits(x.second, y.second);
  });
}

class CommonSubexpressions {
 public:
  explicit CommonSubexpressions(GraphDraft& draft)
      : draft_(draft),
        last_use_(draft.before().values().size(), -1),
        with_same_hash_(draft.before().ops().size()) {
    latest_.reserve(draft.before().ops().size());
    for (int i = 0; i < draft.op_count(); ++i)
      if (draft.is_present({i}))
        for (ValueId input : draft.inputs({i})) last_use_[input.index] = i;
    for (size_t i = 0; i < last_use_.size(); ++i)
      if (draft.is_result({static_cast<int>(i)})) last_use_[i] = std::numeric_limits<int>::max();
  }

  void run() {
    for (int i = 0; i < draft_.op_count(); ++i)
      if (draft_.is_present({i}) && may_repeat({i})) visit({i});
  }

 private:
  /// Is it an op that may be merged at all?
  bool may_repeat(OpId op) const {
    return !draft_.is_kept(op) && draft_.before().op(op).regions.empty();
  }

  void visit(OpId op) {
    OpId& latest = latest_[hash(op)];
    for (OpId first = latest; first.index >= 0; first = with_same_hash_[first.index]) {
      if (!is_same(first, op)) continue;
      if (draft_.may_replace(op) && is_alive(first, op)) return merge(first, op);
      break;  // of equal ops the nearest is the most likely to be alive at the next one
    }
    with_same_hash_[op.index] = latest;
    latest = op;
  }

  size_t hash(OpId op) const {
    size_t hash = std::hash<std::string>()(draft_.kind(op));
    hash = combine(hash, static_cast<size_t>(draft_.before().op(op).role));
    hash = combine(hash, static_cast<size_t>(draft_.stage(op)));
    for (const auto& [name, attribute] : draft_.attributes(op))
      hash = combine(hash, hash_of(attribute));
    for (ValueId input : draft_.inputs(op)) hash = combine(hash, static_cast<size_t>(input.index));
    return hash;
  }

  bool is_same(OpId a, OpId b) const {
    const Graph& graph = draft_.before();
    return draft_.kind(a) == draft_.kind(b) && graph.op(a).role == graph.op(b).role &&
           draft_.stage(a) == draft_.stage(b) && draft_.inputs(a) == draft_.inputs(b) &&
           std::ranges::equal(
               draft_.outputs(a), draft_.outputs(b),
               [&](ValueId x, ValueId y) { return graph.type(x) == graph.type(y); }) &&
           same_bits(draft_.attributes(a), draft_.attributes(b));
  }

  /// Is every result of `first` read at `op` or after it?
  bool is_alive(OpId first, OpId op) const {
    return std::ranges::all_of(draft_.outputs(first),
                               [&](ValueId value) { return last_use_[value.index] >= op.index; });
  }

  void merge(OpId first, OpId op) {
    const std::vector<ValueId>&from = draft_.outputs(op), &to = draft_.outputs(first);
    for (size_t i = 0; i < from.size(); ++i)
      last_use_[to[i].index] = std::max(last_use_[to[i].index], last_use_[from[i].index]);
    draft_.replace(op, to);
  }

  GraphDraft& draft_;
  std::vector<int> last_use_;                // by value: the last op that reads it
  std::unordered_map<size_t, OpId> latest_;  // of the ops with this hash
  std::vector<OpId> with_same_hash_;         // by op: the one before it
};

}  // namespace

void merge_common_subexpressions(GraphDraft& draft) {
  CommonSubexpressions(draft).run();
}

}  // namespace tessera
