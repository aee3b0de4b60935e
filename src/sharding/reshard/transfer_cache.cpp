#include "sharding/reshard/transfer_cache.h"

#include "sharding/layout/dist_attr_hash.h"

namespace tessera {
namespace {

size_t hash_of(const Shape& shape, const Exchange& exchange) {
  Hasher hasher;
  hasher.add_each(shape);
  for (const DistAttr* attr : {&exchange.from, &exchange.to}) {
    hasher.add_each(attr->mesh->ranks());
    add_placement(hasher, *attr);
  }
  return hasher.value();
}

}  // namespace

ExchangeClass TransferCache::class_of(const Shape& shape, const Exchange& exchange) {
  std::vector<ExchangeClass>& same = with_hash_[hash_of(shape, exchange)];
  for (ExchangeClass known : same) {
    const Entry& entry = entries_[known];
    if (entry.shape == shape && entry.exchange.from == exchange.from &&
        entry.exchange.to == exchange.to)
      return known;
  }
  entries_.push_back({shape, exchange});
  return same.emplace_back(static_cast<int>(entries_.size()) - 1);
}

const std::vector<RecvElements>& TransferCache::at(ExchangeClass exchanges, Rank receiver) {
  Entry& entry = entries_[exchanges];
  const auto [found, is_new] = entry.by_receiver.try_emplace(receiver);
  if (is_new) found->second = recv_elements(entry.shape, entry.exchange, receiver);
  return found->second;
}

}  // namespace tessera
