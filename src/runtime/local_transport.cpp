#include "runtime/local_transport.h"

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
  std::array<std::byte, Transport::kMostMessageBytes> bytes;
};

struct LocalData {
  int from = 0;
  int tag = 0;
  std::span<const std::byte> data;
  Countdown* under_way = nullptr;
  int polls_left = 0;
};

struct LocalReceive {
  int from = 0;
  int tag = 0;
  std::span<std::byte> data;
  Countdown* under_way = nullptr;
};

/// What lies before one member.
struct LocalInbox {
  std::mutex mutex;
  std::deque<LocalMessage> messages;
  std::deque<LocalData> data;
};

struct LocalHub {
  explicit LocalHub(int members) : inboxes(static_cast<size_t>(members)) {}
  std::vector<LocalInbox> inboxes;
};

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalHub> hub, int member, int delays, uint64_t seed)
      : hub_(std::move(hub)), member_(member), delays_(delays), random_(random_key(seed, "delays"), static_cast<uint64_t>(member)) {}

  int member() const override { return member_; }
  int members() const override { return static_cast<int>(hub_->inboxes.size()); }
  int tags() const override { return 1 << 30; }

  void send(int to, std::span<const std::byte> message) override {
    ensure(message.size() <= kMostMessageBytes && to != member_, "a message is small and goes to another member");
    LocalInbox& inbox = inbox_of(to);
    const int delay = drawn_delay();
    const std::lock_guard lock(inbox.mutex);
    LocalMessage& sent = inbox.messages.emplace_back();
    sent.from = member_;
    sent.size = message.size();
    sent.polls_left = delay;
    std::memcpy(sent.bytes.data(), message.data(), message.size());
  }

  void send_data(int to, int tag, std::span<const std::byte> data, Countdown& under_way) override {
    LocalInbox& inbox = inbox_of(to);
    const int delay = drawn_delay();
    const std::lock_guard lock(inbox.mutex);
    inbox.data.push_back({member_, tag, data, &under_way, delay});
  }

  void receive(int from, int tag, std::span<std::byte> data, Countdown& under_way) override {
    receives_.push_back({from, tag, data, &under_way});
  }

  void abandon() override {
    receives_.clear();
    for (LocalInbox& inbox : hub_->inboxes) {
      const std::lock_guard lock(inbox.mutex);
      std::erase_if(inbox.data, [this](const LocalData& data) { return data.from == member_; });
    }
  }

  bool poll(const OnMessage& on_message) override {
    LocalInbox& inbox = inbox_of(member_);
    LocalMessage message;
    bool moved = false;
    while (take_message(inbox, message)) {
      on_message(message.from, std::span(message.bytes).first(message.size));
      moved = true;
    }
    return take_data(inbox) || moved;
  }

 private:
  LocalInbox& inbox_of(int member) { return hub_->inboxes.at(static_cast<size_t>(member)); }

  int drawn_delay() { return delays_ == 0 ? 0 : static_cast<int>(random_.uniform(drawn_++) * static_cast<float>(delays_)); }

  /// The first message of any pair that has waited for long enough; one that has not keeps those behind it in its pair.
  static bool take_message(LocalInbox& inbox, LocalMessage& taken) {
    const std::lock_guard lock(inbox.mutex);
    for (auto at = inbox.messages.begin(); at != inbox.messages.end(); ++at) {
      const bool is_first_of_pair = std::none_of(inbox.messages.begin(), at, [&](const LocalMessage& m) { return m.from == at->from; });
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
      const auto same_lane = [&](const auto& other) { return other.from == at->from && other.tag == at->tag; };
      const bool is_first_of_lane = std::none_of(inbox.data.begin(), at, same_lane);
      const auto receive = std::find_if(receives_.begin(), receives_.end(), same_lane);
      if (!is_first_of_lane || receive == receives_.end() || at->polls_left-- > 0) {
        ++at;
        continue;
      }
      ensure(receive->data.size() == at->data.size(), "both sides of a piece know its size");
      std::memcpy(receive->data.data(), at->data.data(), at->data.size());
      receive->under_way->fetch_sub(1, std::memory_order_release);
      at->under_way->fetch_sub(1, std::memory_order_release);
      receives_.erase(receive);
      at = inbox.data.erase(at);
      moved = true;
    }
    return moved;
  }

  std::shared_ptr<LocalHub> hub_;
  int member_;
  int delays_;
  RandomStream random_;
  uint64_t drawn_ = 0;
  std::deque<LocalReceive> receives_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(int members, int delays, uint64_t seed) {
  const auto hub = std::make_shared<LocalHub>(members);
  std::vector<std::unique_ptr<Transport>> all;
  for (int member = 0; member < members; ++member) all.push_back(std::make_unique<LocalTransport>(hub, member, delays, seed));
  return all;
}

}  // namespace tessera
