#include "runtime/memory/internal/rank_device.h"

#include <condition_variable>
#include <mutex>

#include "base/error.h"

namespace tessera {

RankDevice::RankDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {
  for (auto& stream : streams_) stream = device_->make_stream();
}

std::byte* RankDevice::keep(const std::string& variable, std::byte* host, Bytes size) {
  const auto [found, is_new] = variables_.try_emplace(variable);
  Kept& kept = found->second;
  if (is_new) {
    kept = {device_->allocate(size), host};
    streams_.front()->copy_in(kept.memory.address(), host, size);
    finish();
  }
  return kept.memory.address();
}

void RankDevice::fetch_variables() {
  for (const auto& [name, kept] : variables_)
    streams_.front()->copy_out(kept.host, kept.memory.address(), kept.memory.size());
  finish();
}

void RankDevice::store_variables() {
  for (const auto& [name, kept] : variables_)
    streams_.front()->copy_in(kept.memory.address(), kept.host, kept.memory.size());
  finish();
}

void RankDevice::copy_out(std::byte* host, const std::byte* address, Bytes size) {
  streams_.front()->copy_out(host, address, size);
  finish();
}

void RankDevices::fetch_variables() const {
  for (const auto& accelerator : accelerators_)
    if (accelerator) accelerator->fetch_variables();
}

void RankDevices::store_variables() const {
  for (const auto& accelerator : accelerators_)
    if (accelerator) accelerator->store_variables();
}

DeviceStream& RankDevices::stream(int rank_index, TaskStream stream) {
  if (RankDevice* accelerator = find(rank_index)) return accelerator->stream(stream);
  const FileStreams& streams = file_streams_[rank_index];
  ensure(streams.in != nullptr, "a rank without a device copies to and from a file only");
  return stream == TaskStream::kCopyIn ? *streams.in : *streams.out;
}

void RankDevices::make_file_streams(int rank_index, Device& file) {
  FileStreams& streams = file_streams_[rank_index];
  if (streams.in) return;
  streams = {file.make_stream(), file.make_stream()};
}

Bytes RankDevice::variable_bytes() const {
  Bytes sum{0};
  for (const auto& [name, kept] : variables_) sum += kept.memory.size();
  return sum;
}

/// Waits until the stream of immediate copies has no work left.
void RankDevice::finish() {
  std::mutex mutex;
  std::condition_variable changed;
  DeviceEvent event([&] {
    const std::lock_guard lock(mutex);
    changed.notify_one();
  });
  streams_.front()->record(event);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return event.reached(); });
  event.rethrow();
}

}  // namespace tessera
