#include "compiler/schedule/internal/building_block.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

/// A forward or an input gradient of the block on one device.
struct Slot {
  PassKind kind;
  int stage;
  int offset;
};
using Block = std::vector<std::vector<Slot>>;  // by device

/// The waiting slots at the turns: forward at the point of the V, at the loss, and backward at the
/// point of the V.
struct Turns {
  int forward = 1, loss = 1, backward = 1;
};

Block lay_out(const BuildingBlock& block, int devices, const Turns& turns) {
  const int rounds = block.rounds(), stages = rounds * devices;
  Block slots(devices);
  const auto device_of = [&](int stage) {
    return rounds == 1 ? stage : std::min(stage, 2 * devices - 1 - stage);
  };
  int now = 0;
  for (int stage = 0; stage < stages; ++stage) {
    if (stage > 0) now += stage == devices ? turns.forward : block.forward_step[stage / devices];
    slots[device_of(stage)].push_back({PassKind::kForward, stage, now});
  }
  for (int stage = stages - 1; stage >= 0; --stage) {
    const bool is_point = stage + 1 == devices && rounds == 2;
    now += stage == stages - 1 ? turns.loss
           : is_point          ? turns.backward
                               : block.backward_step[stage / devices];
    slots[device_of(stage)].push_back({PassKind::kInputGradient, stage, now});
  }
  return slots;
}

bool collides(const Block& slots, int period) {
  return std::any_of(slots.begin(), slots.end(), [&](const std::vector<Slot>& device) {
    unsigned taken = 0;
    for (const Slot& slot : device) {
      const unsigned bit = 1u << (slot.offset % period);
      if (taken & bit) return true;
      taken |= bit;
    }
    return false;
  });
}

/// All waits at the turns of less than a period each with which no two passes collide, the shortest
/// first.
std::vector<Block> without_collisions(const BuildingBlock& block, int devices) {
  const int rounds = block.rounds(), period = 3 * rounds;
  const int at_points = rounds == 2 ? period : 1;  // one round has none
  std::vector<std::pair<int, Block>> found;
  for (int forward = 0; forward < at_points; ++forward)
    for (int backward = 0; backward < at_points; ++backward)
      for (int loss = 0; loss < period; ++loss)
        if (Block slots = lay_out(block, devices, {1 + forward, 1 + loss, 1 + backward});
            !collides(slots, period))
          found.emplace_back(forward + backward + loss, std::move(slots));
  ensure(!found.empty(), "a building block can be repeated");
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Block> blocks;
  for (auto& [waits, slots] : found) blocks.push_back(std::move(slots));
  return blocks;
}

/// The state of one device while the repeated block is compressed.
struct Device {
  std::vector<Slot> sequence;  // the repeated block in its order; `offset` is its due time
  std::vector<int> micro_batch;
  std::vector<unsigned> kind_bit;  // one for each stage and kind of the device
  std::vector<bool> done;
  size_t first = 0;             // index of the first remaining pass
  std::vector<Pass> waiting_w;  // B is done, W is not
  size_t next_w = 0;
  int kept = 0;
  int forwards_left = 0;
  int begin = 0;  // slot of its first pass
  std::vector<Pass> order;

  int weight_gradients_waiting() const { return static_cast<int>(waiting_w.size() - next_w); }
};

/// Executes the repeated block slot by slot, each pass as early as the limit allows.
class PeriodCompression {
 public:
  PeriodCompression(const Block& block, int period, int limit, int stages, int micro_batches,
                    bool weights_first)
      : limit_(limit),
        stages_(stages),
        weights_first_(weights_first),
        count_(micro_batches),
        end_(stages, micro_batches, -1) {
    for (const std::vector<Slot>& slots : block) devices_.push_back(repeat(slots, period));
  }

  void run() {
    const int passes = 3 * stages_ * count_;
    int done = 0;
    for (int now = 0; done < passes; ++now) {
      ensure(now <= kIdleFactor * passes + kIdleFactor,
             "the compression of a block makes progress");
      for (Device& device : devices_) done += act(device, now) ? 1 : 0;
    }
  }

  /// The slots of the device that takes longest from its first pass to its last.
  int longest_span() const { return longest_span_; }

  DeviceOrders take() {
    DeviceOrders orders;
    for (Device& device : devices_) orders.push_back(std::move(device.order));
    return orders;
  }

 private:
  static constexpr int kIdleFactor = 16;

  Device repeat(const std::vector<Slot>& slots, int period) const {
    struct Repeated {
      Slot slot;
      int micro_batch;
      unsigned kind_bit;
    };
    std::vector<Repeated> all;
    for (int i = 0; i < count_; ++i)
      for (size_t k = 0; k < slots.size(); ++k)
        all.push_back({{slots[k].kind, slots[k].stage, slots[k].offset + i * period}, i, 1u << k});
    std::sort(all.begin(), all.end(),
              [](const Repeated& a, const Repeated& b) { return a.slot.offset < b.slot.offset; });
    Device device;
    for (const Repeated& one : all) {
      device.sequence.push_back(one.slot);
      if (one.slot.kind == PassKind::kForward) ++device.forwards_left;
      device.micro_batch.push_back(one.micro_batch);
      device.kind_bit.push_back(one.kind_bit);
    }
    device.done.assign(all.size(), false);
    return device;
  }

  int& end_of(PassKind kind, int stage, int micro_batch) {
    return end_.at(kind, stage, micro_batch);
  }

  bool is_over(PassKind kind, int stage, int micro_batch, int now) {
    const int end = end_of(kind, stage, micro_batch);
    return end >= 0 && end <= now;
  }

  bool is_ready(const Slot& slot, int micro_batch, int now) {
    if (slot.kind == PassKind::kForward)
      return slot.stage == 0 || is_over(PassKind::kForward, slot.stage - 1, micro_batch, now);
    return is_over(PassKind::kForward, slot.stage, micro_batch, now) &&
           (slot.stage + 1 == stages_ ||
            is_over(PassKind::kInputGradient, slot.stage + 1, micro_batch, now));
  }

  /// May the forward at `place` be executed before all remaining passes that precede it?
  bool is_safe(const Device& device, size_t place) const {
    if (device.kept >= limit_) return false;
    int kept = device.kept + 1 - device.weight_gradients_waiting();
    for (size_t i = device.first; i < place; ++i) {
      if (device.done[i]) continue;
      kept += device.sequence[i].kind == PassKind::kForward ? 1 : -1;
      if (kept > limit_) return false;
    }
    return true;
  }

  /// The first ready one of the remaining passes. Of each stage and kind only the next can be
  /// ready.
  std::optional<size_t> choose(const Device& device, int now) {
    const unsigned all = (1u << (device.sequence.size() / count_)) - 1;
    unsigned seen = 0;
    for (size_t i = device.first; i < device.sequence.size() && seen != all; ++i) {
      const Slot& slot = device.sequence[i];
      if (device.done[i] || (seen & device.kind_bit[i]) != 0) continue;
      seen |= device.kind_bit[i];
      if (!is_ready(slot, device.micro_batch[i], now)) continue;
      if (slot.kind == PassKind::kInputGradient || is_safe(device, i)) return i;
      if (device.kept >= limit_ && device.next_w < device.waiting_w.size())
        return std::nullopt;  // a W has to free memory for it
    }
    return std::nullopt;
  }

  bool act(Device& device, int now) {
    const bool must_free = weights_first_ && device.kept >= limit_ && device.forwards_left > 0 &&
                           device.next_w < device.waiting_w.size();
    if (const auto place = must_free ? std::nullopt : choose(device, now)) {
      const Slot& slot = device.sequence[*place];
      const Pass pass{slot.kind, slot.stage, device.micro_batch[*place]};
      end_of(pass.kind, pass.stage, pass.micro_batch) = now + 1;
      device.done[*place] = true;
      while (device.first < device.done.size() && device.done[device.first]) ++device.first;
      add(device, pass, now);
      if (pass.kind == PassKind::kForward) {
        ++device.kept;
        --device.forwards_left;
      }
      if (pass.kind == PassKind::kInputGradient)
        device.waiting_w.push_back({PassKind::kWeightGradient, pass.stage, pass.micro_batch});
      return true;
    }
    if (device.next_w == device.waiting_w.size()) return false;
    add(device, device.waiting_w[device.next_w++], now);
    --device.kept;
    return true;
  }

  void add(Device& device, const Pass& pass, int now) {
    if (device.order.empty()) device.begin = now;
    device.order.push_back(pass);
    longest_span_ = std::max(longest_span_, now + 1 - device.begin);
  }

  int limit_, stages_;
  bool weights_first_;  // a device at its limit executes a W before anything else
  int count_;
  int longest_span_ = 0;
  PassTable<int> end_;  // slot at which an F or B is over; negative: not done
  std::vector<Device> devices_;
};

}  // namespace

DeviceOrders repeat_block(const BuildingBlock& block, int devices, int micro_batches) {
  const int rounds = block.rounds();
  const auto compress_period = [&](const Block& slots, bool weights_first, int count) {
    PeriodCompression compression(slots, 3 * rounds, block.limit, rounds * devices, count,
                                  weights_first);
    compression.run();
    return compression;
  };
  // The order repeats after as many micro-batches as are in flight, so these determine the best
  // block.
  const int some = std::min(micro_batches, 2 * devices);
  const std::vector<Block> blocks = without_collisions(block, devices);
  int shortest = INT_MAX;
  const Block* best = nullptr;
  for (const Block& slots : blocks) {
    if (shortest == 3 * rounds * some) break;  // no device waits
    for (const bool weights_first : {false, true})
      if (const int span = compress_period(slots, weights_first, some).longest_span();
          span < shortest)
        shortest = span, best = &slots;
  }
  PeriodCompression late = compress_period(*best, false, micro_batches),
                    early = compress_period(*best, true, micro_batches);
  return early.longest_span() < late.longest_span() ? early.take() : late.take();
}

}  // namespace tessera
