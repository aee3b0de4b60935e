#include "cluster/cost/links.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

double seconds_of(Bytes bytes, const LinkCost& link) {
  return static_cast<double>(bytes.value()) / link.bytes_per_second;
}

/// `rounds` messages of `bytes / ranks` bytes, one after the other.
Price rounds_price(int rounds, Bytes bytes, int ranks, const LinkCost& link) {
  const double transfer = seconds_of(bytes, link) / ranks;
  const double start = rounds > 0 ? link.start.value() : 0;
  return {Seconds(start + rounds * (link.latency.value() + transfer)), Seconds(rounds * transfer)};
}

}  // namespace

Price message_price(Bytes bytes, const LinkCost& link) {
  const Seconds transfer(seconds_of(bytes, link));
  return {link.start + link.latency + transfer, transfer};
}

const LinkCost& LinkCosts::on(std::string_view axis) const {
  const auto found = axes.find(axis);
  return found == axes.end() ? any : found->second;
}

const LinkCost& LinkCosts::outermost_on(std::string_view axis) const {
  const auto found = levels.find(axis);
  return on(found == levels.end() ? axis : found->second.front().name);
}

const LinkCost* LinkCosts::between(Rank a, Rank b) const {
  const auto found = pairs.find(std::minmax(a, b));
  return found == pairs.end() ? nullptr : &found->second;
}

void ExchangeTime::Load::add(const LinkCost& link, double seconds) {
  all += seconds;
  const auto found = std::find_if(by_link.begin(), by_link.end(),
                                  [&](const auto& load) { return load.first == &link; });
  if (found == by_link.end())
    by_link.emplace_back(&link, seconds);
  else
    found->second += seconds;
}

void ExchangeTime::add(Rank sender, Bytes bytes, const LinkCost& link) {
  const double seconds = seconds_of(bytes, link);
  receiving_.add(link, seconds);
  start_ = std::max(start_, link.start.value());
  if (sender >= std::ssize(sending_)) sending_.resize(static_cast<size_t>(sender) + 1);
  Sender& sending = sending_[sender];
  sending.load.add(link, seconds);
  if (std::exchange(sending.receiver, receiver_) != receiver_) latency_ += link.latency.value();
}

void ExchangeTime::Longest::keep(const Load& load) {
  transfer = std::max(transfer, load.all);
  for (const auto& [link, seconds] : load.by_link) on_a_link = std::max(on_a_link, seconds);
}

void ExchangeTime::end_receiver() {
  longest_.keep(receiving_);
  max_latency_ = std::max(max_latency_, latency_);
  receiving_.all = 0;
  receiving_.by_link.clear();
  ++receiver_;
  latency_ = 0;
}

Price ExchangeTime::price() const {
  Longest longest = longest_;
  for (const Sender& sender : sending_) longest.keep(sender.load);
  return {Seconds(start_ + max_latency_ + longest.transfer), Seconds(longest.on_a_link)};
}

Price ring_all_reduce_price(Bytes message, int ranks, const LinkCost& link) {
  return rounds_price(2 * (ranks - 1), message, ranks, link);
}

Price ring_all_gather_price(Bytes whole, int ranks, const LinkCost& link) {
  return rounds_price(ranks - 1, whole, ranks, link);
}

Price ring_reduce_scatter_price(Bytes whole, int ranks, const LinkCost& link) {
  return rounds_price(ranks - 1, whole, ranks, link);
}

Price all_to_all_price(Bytes local, int ranks, const LinkCost& link) {
  return rounds_price(ranks - 1, local, ranks, link);
}

}  // namespace tessera
