#include "runtime/comm/testing/local_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <mutex>

#include "base/error.h"
#include "base/random.h"

namespace tessera {
namespace {

struct LocalMessage {
  int from = 0;
  size_t size = 0;
  int polls_left = 0;
  std::array<std::byte, Transport::kMaxMessageBytes> bytes;
};

struct LocalData {
  int from = 0;
  int tag = 0;
  std::span<const std::byte> data;
  Countdown* in_flight = nullptr;
  int polls_left = 0;
};

struct LocalReceive {
  int from = 0;
  int tag = 0;
  std::span<std::byte> data;
  Countdown* in_flight = nullptr;
};

/// Messages and pieces that were sent to one process and have not arrived.
struct LocalInbox {
  std::mutex mutex;
  std::deque<LocalMessage> messages;
  std::deque<LocalData> data;
};

/// The buffers of one process in a collective.
struct Contribution {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  Countdown* in_flight = nullptr;
};

struct LocalGroup {
  std::vector<int> processes;
  /// By position in `processes`: the contributions to collectives that not all processes have
  /// started.
  std::vector<std::deque<Contribution>> contributions;
};

/// The state that the transports of all processes share.
struct SharedState {
  explicit SharedState(int processes) : inboxes(static_cast<size_t>(processes)) {}
  std::vector<LocalInbox> inboxes;  // by process
  std::mutex groups_mutex;          // guards groups
  std::deque<LocalGroup> groups;
};

/// Adds from the last process to the first, so that tests can distinguish it from the compiled
/// order.
template <typename T>
void add_all(const std::vector<Contribution>& all, size_t count, std::vector<std::byte>& sums) {
  sums.assign(count * sizeof(T), std::byte{0});
  T* sum = reinterpret_cast<T*>(sums.data());
  for (auto one = all.rbegin(); one != all.rend(); ++one)
    for (size_t i = 0; i < count; ++i) sum[i] += reinterpret_cast<const T*>(one->source)[i];
}

void run_collective(const Collective& what, const std::vector<Contribution>& all) {
  const auto size = static_cast<size_t>(size_of(what.dtype));
  const auto bytes = [&](int count) { return static_cast<size_t>(count) * size; };
  const bool is_gather = what.kind == Collective::Kind::kAllGather;
  const int whole =
      what.begins.empty() ? what.counts.front() : what.begins.back() + what.counts.back();
  std::vector<std::byte> result(bytes(whole));
  if (is_gather)
    for (size_t i = 0; i < all.size(); ++i)
      std::memcpy(result.data() + bytes(what.begins[i]), all[i].source, bytes(what.counts[i]));
  else if (what.dtype == DType::kF32)
    add_all<float>(all, static_cast<size_t>(whole), result);
  else
    add_all<int32_t>(all, static_cast<size_t>(whole), result);
  for (size_t i = 0; i < all.size(); ++i) {
    const bool is_scattered = what.kind == Collective::Kind::kReduceScatter;
    const size_t begin = is_scattered ? bytes(what.begins[i]) : 0;
    std::memcpy(all[i].target, result.data() + begin,
                is_scattered ? bytes(what.counts[i]) : result.size());
  }
}

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<SharedState> shared, int process, int delays, uint64_t seed)
      : shared_(std::move(shared)),
        process_(process),
        delays_(delays),
        random_(random_key(seed, "delays"), static_cast<uint64_t>(process)) {}

  int process() const override { return process_; }
  int size() const override { return static_cast<int>(shared_->inboxes.size()); }
  int tags() const override { return 1 << 30; }

  void send(int to, std::span<const std::byte> message) override {
    ensure(message.size() <= kMaxMessageBytes && to != process_,
           "a message is small and goes to another process");
    LocalInbox& inbox = inbox_of(to);
    const int delay = sample_delay();
    const std::lock_guard lock(inbox.mutex);
    LocalMessage& sent = inbox.messages.emplace_back();
    sent.from = process_;
    sent.size = message.size();
    sent.polls_left = delay;
    std::memcpy(sent.bytes.data(), message.data(), message.size());
  }

  void send_data(int to, int tag, std::span<const std::byte> data, Countdown& in_flight) override {
    LocalInbox& inbox = inbox_of(to);
    const int delay = sample_delay();
    const std::lock_guard lock(inbox.mutex);
    inbox.data.push_back({process_, tag, data, &in_flight, delay});
  }

  void recv_data(int from, int tag, std::span<std::byte> data, Countdown& in_flight) override {
    receives_.push_back({from, tag, data, &in_flight});
  }

  /// The first process that calls it makes the group.
  int split(std::span<const int> processes) override {
    const std::lock_guard lock(shared_->groups_mutex);
    const auto found = std::find_if(
        shared_->groups.begin(), shared_->groups.end(),
        [&](const LocalGroup& group) { return std::ranges::equal(group.processes, processes); });
    if (found != shared_->groups.end()) return static_cast<int>(found - shared_->groups.begin());
    shared_->groups.push_back({{processes.begin(), processes.end()},
                               std::vector<std::deque<Contribution>>(processes.size())});
    return static_cast<int>(shared_->groups.size()) - 1;
  }

  /// The last process that starts a collective runs it for all.
  void start(const Collective& what, GroupStream on, const std::byte* source, std::byte* target,
             Countdown& in_flight) override {
    const std::lock_guard lock(shared_->groups_mutex);
    LocalGroup& mine = shared_->groups[on.group];
    const auto own =
        std::find(mine.processes.begin(), mine.processes.end(), process_) - mine.processes.begin();
    mine.contributions[own].push_back({source, target, &in_flight});
    if (std::ranges::any_of(mine.contributions, [](const auto& queue) { return queue.empty(); }))
      return;
    std::vector<Contribution> all;
    for (auto& queue : mine.contributions) {
      all.push_back(queue.front());
      queue.pop_front();
    }
    run_collective(what, all);
    for (const Contribution& one : all) one.in_flight->fetch_sub(1, std::memory_order_release);
  }

  void abandon() override {
    {
      const std::lock_guard lock(shared_->groups_mutex);
      for (LocalGroup& group : shared_->groups)
        for (size_t i = 0; i < group.processes.size(); ++i)
          if (group.processes[i] == process_) group.contributions[i].clear();
    }
    receives_.clear();
    for (LocalInbox& inbox : shared_->inboxes) {
      const std::lock_guard lock(inbox.mutex);
      std::erase_if(inbox.data, [this](const LocalData& data) { return data.from == process_; });
    }
  }

  bool poll(const OnMessage& on_message) override {
    LocalInbox& inbox = inbox_of(process_);
    LocalMessage message;
    bool moved = false;
    while (take_message(inbox, message)) {
      on_message(message.from, std::span(message.bytes).first(message.size));
      moved = true;
    }
    return take_data(inbox) || moved;
  }

 private:
  LocalInbox& inbox_of(int process) { return shared_->inboxes.at(process); }

  int sample_delay() {
    return delays_ == 0
               ? 0
               : static_cast<int>(random_.uniform(samples_++) * static_cast<float>(delays_));
  }

  /// Takes the first message of a pair whose delay is over. A message that is still delayed blocks
  /// those after it of its pair.
  static bool take_message(LocalInbox& inbox, LocalMessage& taken) {
    const std::lock_guard lock(inbox.mutex);
    for (auto at = inbox.messages.begin(); at != inbox.messages.end(); ++at) {
      const bool is_first_of_pair = std::none_of(
          inbox.messages.begin(), at, [&](const LocalMessage& m) { return m.from == at->from; });
      if (!is_first_of_pair || at->polls_left-- > 0) continue;
      taken = *at;
      inbox.messages.erase(at);
      return true;
    }
    return false;
  }

  bool take_data(LocalInbox& inbox) {
    const std::lock_guard lock(inbox.mutex);
    bool moved = false;
    for (auto at = inbox.data.begin(); at != inbox.data.end();) {
      const auto has_same_tag = [&](const auto& other) {
        return other.from == at->from && other.tag == at->tag;
      };
      const bool is_first_of_tag = std::none_of(inbox.data.begin(), at, has_same_tag);
      const auto receive = std::find_if(receives_.begin(), receives_.end(), has_same_tag);
      if (!is_first_of_tag || receive == receives_.end() || at->polls_left-- > 0) {
        ++at;
        continue;
      }
      ensure(receive->data.size() == at->data.size(), "both sides of a piece know its size");
      std::memcpy(receive->data.data(), at->data.data(), at->data.size());
      receive->in_flight->fetch_sub(1, std::memory_order_release);
      at->in_flight->fetch_sub(1, std::memory_order_release);
      receives_.erase(receive);
      at = inbox.data.erase(at);
      moved = true;
    }
    return moved;
  }

  std::shared_ptr<SharedState> shared_;
  int process_;
  int delays_;
  RandomStream random_;
  uint64_t samples_ = 0;
  std::deque<LocalReceive> receives_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(int processes, int delays,
                                                              uint64_t seed) {
  const auto shared = std::make_shared<SharedState>(processes);
  std::vector<std::unique_ptr<Transport>> all;
  for (int process = 0; process < processes; ++process)
    all.push_back(std::make_unique<LocalTransport>(shared, process, delays, seed));
  return all;
}

}  // namespace tessera
