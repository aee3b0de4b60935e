#include "tools/cli/internal/print/verify_report.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

VerifyReport one_step() {
  VerifyReport report;
  report.ok = true;
  report.max_error = 0.25;
  report.losses = {2.5};
  report.serial_losses = {2.75};
  report.loss_tolerances = {0.5};
  report.tensors = 1395;
  report.exact_tensors = 177;
  return report;
}

TEST(VerifyReport, AGoodOneShowsTheLossesOfBothAndTheVerdict) {
  EXPECT_EQ(report_text(one_step()),
            "  step  loss of the plan  loss of serial  difference  tolerance\n"
            "     1          2.500000        2.750000     2.5e-01    5.0e-01\n"
            "\n"
            "tensors  1,395 compared in a step, 177 of them bit for bit\n"
            "error    at most 0.25 of its tolerance\n"
            "verdict  ok: the plan computes what the serial program computes\n");
}

TEST(VerifyReport, AFailedOneNamesTheFirstOpThatDiffersAndWhere) {
  VerifyReport report = one_step();
  report.ok = false;
  report.first_difference = Difference{.step = 2,
                                       .op = "y",
                                       .value = "y [@dp, *]",
                                       .placement = "f32[8@dp, 4]",
                                       .index = 5,
                                       .distributed = 3,
                                       .serial = 1,
                                       .tolerance = 0.5};
  const std::string text = report_text(report);
  EXPECT_NE(
      text.find("verdict  FAILED: the plan does not compute what the serial program computes\n"
                "\n"
                "first to differ: op 'y'\n"
                "  value        y [@dp, *]\n"
                "  placement    f32[8@dp, 4]\n"
                "  step         3\n"
                "  index        5 of the whole tensor\n"
                "  distributed  3\n"
                "  serial       1\n"
                "  difference   2\n"
                "  tolerance    0.5\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(to_json(*report_document(report).find("first_difference")),
            R"({"step":3,"op":"y","value":"y [@dp, *]","placement":"f32[8@dp, 4]","index":5,)"
            R"("distributed":3.0,"serial":1.0,"tolerance":0.5})");
}

TEST(VerifyReport, SaysHowManyValuesPassesRemoved) {
  VerifyReport report = one_step();
  report.removed_values = 3;
  EXPECT_NE(report_text(report).find("177 of them bit for bit\n"
                                     "removed  3 values by passes over the serial graph\n"),
            std::string::npos);
}

TEST(VerifyReport, ScriptsFindEveryKeyOfTheContract) {
  const Document document = report_document(one_step());
  EXPECT_EQ(to_json(document),
            R"({"ok":true,"max_error":0.25,"first_difference":null,"losses":[2.5],)"
            R"("serial_losses":[2.75],"loss_tolerances":[0.5],"tensors":1395,"exact_tensors":177,)"
            R"("removed_values":0,"notes":[]})");
}

}  // namespace
}  // namespace tessera
