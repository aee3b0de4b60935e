#include "lower/reshard_plans.h"

#include <algorithm>
#include <functional>

#include "reshard/pulls.h"

namespace tessera {
namespace {

/// Mixes numbers into one, in their order.
class Mixer {
 public:
  template <class Number>
  void add(const Number& number) {
    value_ ^= std::hash<Number>()(number) + 0x9e3779b97f4a7c15 + (value_ << 6) + (value_ >> 2);
  }
  /// Equal placements give equal numbers: only the axes of a dim that is not divided matter.
  void add(const DistAttr& attr) {
    add(attr.mesh.get());
    for (const DimSharding& dim : attr.dims) {
      add(dim.axes.size());
      for (int axis : dim.axes) add(axis);
      if (dim.axes.empty()) continue;
      add(dim.unit);
      add(dim.chunks);
      add(dim.windows.size());
    }
    for (const PartialAxis& partial : attr.partial) add(partial.axis);
  }
  size_t value() const { return value_; }

 private:
  size_t value_ = 0;
};

}  // namespace

bool ReshardPlans::Key::operator==(const Key& other) const {
  return type == other.type && from.mesh == other.from.mesh && to.mesh == other.to.mesh &&
         from == other.from && to == other.to;
}

size_t ReshardPlans::Hash::operator()(const Key& key) const {
  Mixer mixer;
  mixer.add(key.type.dtype);
  for (int64_t extent : key.type.shape) mixer.add(extent);
  mixer.add(key.from);
  mixer.add(key.to);
  return mixer.value();
}

const PricedReshard& ReshardPlans::plan(const TensorType& type, const DistAttr& from,
                                        const DistAttr& to) {
  Key key{type, from, to};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  return known_.emplace(std::move(key), priced(type, from, to)).first->second;
}

PricedReshard ReshardPlans::priced(const TensorType& type, const DistAttr& from,
                                   const DistAttr& to) const {
  PricedReshard plan{plan_reshard(type, from, to, options_)};
  // The rank at the origin holds the largest parts; the last rank differs from it on every axis.
  int64_t most = 0;
  for (Rank rank : {to.mesh->ranks().front(), to.mesh->ranks().back()})
    most = std::max(most, received_elements(type.shape, plan.exchanges, rank));
  plan.sent_bytes = most * size_of(type.dtype);
  return plan;
}

}  // namespace tessera
