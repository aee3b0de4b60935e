// The recv regions of exchanges that recur: the layers of a model exchange tensors of the same
// shapes between the same placements.
#pragma once

#include <unordered_map>
#include <vector>

#include "base/index.h"
#include "sharding/reshard/recv_regions.h"

namespace tessera {

using ExchangeClass = Index<struct ExchangeClassTag>;  // exchanges of equal shapes and placements

/// Finds the recv regions of each class of exchanges once for each receiver.
///   threads  one caller at a time
class TransferCache {
 public:
  /// Classes are numbered in the order in which they are first asked for.
  ExchangeClass class_of(const Shape& shape, const Exchange& exchange);
  /// recv_elements() of an exchange of the class. The reference holds until the object ends.
  const std::vector<RecvElements>& at(ExchangeClass exchanges, Rank receiver);
  const std::vector<RecvElements>& at(const Shape& shape, const Exchange& exchange, Rank receiver) {
    return at(class_of(shape, exchange), receiver);
  }

 private:
  struct Entry {
    Shape shape;
    Exchange exchange;
    std::unordered_map<Rank, std::vector<RecvElements>> by_receiver = {};
  };

  IndexedVector<ExchangeClass, Entry> entries_;
  std::unordered_map<size_t, std::vector<ExchangeClass>> with_hash_;
};

}  // namespace tessera
