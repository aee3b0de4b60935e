#include "runtime/executor/internal/record/rank_observer.h"

namespace tessera {

void RankObserver::call(RegisterIndex reg, const std::byte* data) const {
  (*observer_)(program_.ranks[rank_index_], reg, memory_.coordinate(program_.reg(reg).mesh), data);
}

void RankObserver::show_copy(RegisterIndex reg, const std::byte* data) const {
  if (!memory_.is_on_accelerator(program_.reg(reg).mesh)) return call(reg, data);
  const Bytes size = memory_.bytes_of(reg);
  std::vector<std::byte> bytes(size.value());
  if (size > Bytes(0)) program_.devices->find(rank_index_)->copy_out(bytes.data(), data, size);
  call(reg, bytes.data());
}

void RankObserver::copy_after(RankStream& stream, RegisterIndex reg, const std::byte* data) const {
  const Bytes size = memory_.bytes_of(reg);
  auto& copy = stream.observed.emplace_back(
      RankStream::ObservedCopy{reg, std::vector<std::byte>(size.value())});
  if (size > Bytes(0)) stream.queue->copy_out(copy.bytes.data(), data, size);
}

void RankObserver::show_copies(RankStream& stream) const {
  if (observer_)
    for (const RankStream::ObservedCopy& copy : stream.observed) call(copy.reg, copy.bytes.data());
  stream.observed.clear();
}

}  // namespace tessera
