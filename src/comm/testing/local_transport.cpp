#include "comm/testing/local_transport.h"

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

/// What a member has given to a collective.
struct LocalGift {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  Countdown* under_way = nullptr;
};

struct LocalGroup {
  std::vector<int> members;
  std::vector<std::deque<LocalGift>>
      gifts;  // by place in members: of the collectives that not all have begun
};

struct LocalHub {
  explicit LocalHub(int members) : inboxes(static_cast<size_t>(members)) {}
  std::vector<LocalInbox> inboxes;
  std::mutex groups_mutex;
  std::deque<LocalGroup> groups;
};

/// Backwards, so that nobody who looks takes it for the compiled order.
template <typename T>
void sum_all(const std::vector<LocalGift>& gifts, size_t count, std::vector<std::byte>& sums) {
  sums.assign(count * sizeof(T), std::byte{0});
  T* sum = reinterpret_cast<T*>(sums.data());
  for (auto gift = gifts.rbegin(); gift != gifts.rend(); ++gift)
    for (size_t i = 0; i < count; ++i) sum[i] += reinterpret_cast<const T*>(gift->source)[i];
}

/// Of what all have given.
void do_together(const Collective& what, const std::vector<LocalGift>& gifts) {
  const auto size = static_cast<size_t>(size_of(what.dtype));
  const auto bytes = [&](int count) { return static_cast<size_t>(count) * size; };
  const bool is_gather = what.kind == Collective::Kind::kAllGather;
  const int whole =
      what.begins.empty() ? what.counts.front() : what.begins.back() + what.counts.back();
  std::vector<std::byte> result(bytes(whole));
  if (is_gather)
    for (size_t i = 0; i < gifts.size(); ++i)
      std::memcpy(result.data() + bytes(what.begins[i]), gifts[i].source, bytes(what.counts[i]));
  else if (what.dtype == DType::kF32)
    sum_all<float>(gifts, static_cast<size_t>(whole), result);
  else
    sum_all<int32_t>(gifts, static_cast<size_t>(whole), result);
  for (size_t i = 0; i < gifts.size(); ++i) {
    const bool is_scattered = what.kind == Collective::Kind::kReduceScatter;
    const size_t begin = is_scattered ? bytes(what.begins[i]) : 0;
    std::memcpy(gifts[i].target, result.data() + begin,
                is_scattered ? bytes(what.counts[i]) : result.size());
  }
}

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalHub> hub, int member, int delays, uint64_t seed)
      : hub_(std::move(hub)),
        member_(member),
        delays_(delays),
        random_(random_key(seed, "delays"), static_cast<uint64_t>(member)) {}

  int member() const override { return member_; }
  int members() const override { return static_cast<int>(hub_->inboxes.size()); }
  int tags() const override { return 1 << 30; }

  void send(int to, std::span<const std::byte> message) override {
    ensure(message.size() <= kMostMessageBytes && to != member_,
           "a message is small and goes to another member");
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

  /// Whoever comes first makes it.
  int new_group(std::span<const int> members) override {
    const std::lock_guard lock(hub_->groups_mutex);
    const auto found = std::find_if(
        hub_->groups.begin(), hub_->groups.end(),
        [&](const LocalGroup& group) { return std::ranges::equal(group.members, members); });
    if (found != hub_->groups.end()) return static_cast<int>(found - hub_->groups.begin());
    hub_->groups.push_back(
        {{members.begin(), members.end()}, std::vector<std::deque<LocalGift>>(members.size())});
    return static_cast<int>(hub_->groups.size()) - 1;
  }

  /// Whoever comes last does it for all.
  void begin(const Collective& what, int group, const std::byte* source, std::byte* target,
             Countdown& under_way) override {
    const std::lock_guard lock(hub_->groups_mutex);
    LocalGroup& mine = hub_->groups[group];
    const auto place =
        std::find(mine.members.begin(), mine.members.end(), member_) - mine.members.begin();
    mine.gifts[place].push_back({source, target, &under_way});
    if (std::ranges::any_of(mine.gifts, [](const auto& of_member) { return of_member.empty(); }))
      return;
    std::vector<LocalGift> gifts;
    for (auto& of_member : mine.gifts) {
      gifts.push_back(of_member.front());
      of_member.pop_front();
    }
    do_together(what, gifts);
    for (const LocalGift& gift : gifts) gift.under_way->fetch_sub(1, std::memory_order_release);
  }

  void abandon() override {
    {
      const std::lock_guard lock(hub_->groups_mutex);
      for (LocalGroup& group : hub_->groups)
        for (size_t i = 0; i < group.members.size(); ++i)
          if (group.members[i] == member_) group.gifts[i].clear();
    }
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
  LocalInbox& inbox_of(int member) { return hub_->inboxes.at(member); }

  int drawn_delay() {
    return delays_ == 0 ? 0
                        : static_cast<int>(random_.uniform(drawn_++) * static_cast<float>(delays_));
  }

  /// The first message of any pair that has waited for long enough; one that has not keeps those
  /// behind it in its pair.
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
      const auto same_lane = [&](const auto& other) {
        return other.from == at->from && other.tag == at->tag;
      };
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

std::vector<std::unique_ptr<Transport>> make_local_transports(int members, int delays,
                                                              uint64_t seed) {
  const auto hub = std::make_shared<LocalHub>(members);
  std::vector<std::unique_ptr<Transport>> all;
  for (int member = 0; member < members; ++member)
    all.push_back(std::make_unique<LocalTransport>(hub, member, delays, seed));
  return all;
}

}  // namespace tessera
