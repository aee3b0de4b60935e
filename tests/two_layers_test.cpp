#include "two_layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text/text.h"

namespace tessera {
namespace {

/// The communication between ranks: the exchange, and for each message "0->2 16": sender, receiver,
/// elements.
std::string traffic(const TaskGraph& tasks) {
  std::string text;
  for (TaskId id : tasks.order) {
    const Task& task = tasks.tasks[id];
    for (size_t part = 0; part < task.parts.size(); ++part) {
      const Exchange& exchange = task.parts[part].exchange;
      const Register& source = tasks.registers[task.inputs[part]];
      text += source.name + " " + std::string(to_text(exchange.kind));
      for (Rank receiver : exchange.to.mesh->ranks())
        for (const RecvRegion& recv_region : recv_regions(source.type->shape, exchange, receiver))
          if (recv_region.sender != receiver)
            text += " " + std::to_string(recv_region.sender) + "->" + std::to_string(receiver) +
                    " " + std::to_string(element_count(recv_region.box.shape()));
      text += "\n";
    }
  }
  return text;
}

TEST(TwoLayers, OnTwoMeshesExchangeWhatTheyMust) {
  const TwoLayers layers;
  // By the definition: the halves of y and of its gradient, B*H/2 elements each, and one sum of B*O
  // elements on the second mesh. The gradients of the weights need no communication, and all ranks
  // of the mesh of the loss have the loss.
  const std::string half = std::to_string(TwoLayers::kRows * TwoLayers::kHidden / 2),
                    whole = std::to_string(TwoLayers::kRows * TwoLayers::kOut);
  std::vector<std::string> expected;
  for (int m = 0; m < TwoLayers::kMicroBatches; ++m) {
    const std::string number = " #" + std::to_string(m);
    expected.push_back("y" + number + " messages 0->2 " + half + " 1->3 " + half);
    expected.push_back("z" + number + " all-reduce 3->2 " + whole + " 2->3 " + whole);
    expected.push_back("z.grad.a" + number + " messages 2->0 " + half + " 3->1 " + half);
  }
  std::vector<std::string> found = split_text(traffic(layers.compiled.tasks), '\n');
  std::erase(found, "");
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace tessera
