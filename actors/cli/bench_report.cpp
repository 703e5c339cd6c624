#include "actors/cli/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>

#include "actors/artefacts/svg_plot.h"
#include "actors/cli/help_text.h"
#include "kernels/core/text.h"
#include "samplers/parallel/method_row.h"

namespace troupe::actors {
namespace {

/// A column of the report's tables.
struct ReportColumn {
  std::string_view head;
  std::string_view meaning;
  std::function<std::string(const SettingRow&)> text;
  bool is_short = true;  ///< a terminal has it, too
};

std::string accuracy_text(const SettingRow& row) {
  return row.quality && row.quality->accuracy
             ? fmt::format("{:.1f} %", 100 * *row.quality->accuracy)
             : "";
}

/// Equal pictures are no distance apart, but for rounding.
std::string distance_text(double frechet) {
  return frechet < 1e-6 ? "0" : fmt::format("{:.3g}", frechet);
}

std::string paired_text(const SettingRow& row) {
  return row.quality && row.quality->frechet_other
             ? distance_text(row.quality->frechet)
             : "";
}

std::string other_text(const SettingRow& row) {
  return row.quality
             ? fmt::format(
                   "{:.3g}{}",
                   row.quality->frechet_other.value_or(row.quality->frechet),
                   row.quality->is_within_chance.value_or(true) ? "" : " FAR")
             : "";
}

std::string decibels(const std::optional<double>& psnr, const SettingRow& row) {
  return psnr ? fmt::format("{:.1f}", *psnr) : row.psnr.worst ? "∞" : "equal";
}

std::string rmse_text(double rmse) { return fmt::format("{:.2g}", rmse); }

std::vector<ReportColumn> report_columns(const MethodsReport& report) {
  using Row = const SettingRow&;
  const bool is_emulated = report.emulated.has_value();
  std::vector<ReportColumn> columns = {
      {"rounds", "network calls that follow one another (median)",
       [](Row r) { return fmt::format("{:g}", r.rounds); }},
      {"NFE÷T",
       "network calls by those of the sequential run; above 1 the method "
       "computes more than one worker would",
       [](Row r) { return fmt::format("{:.2f}", r.nfe_ratio); }},
      {is_emulated ? "emul. s" : "seconds",
       is_emulated ? "emulated: modelled seconds of a picture, without decoding"
                   : "of a picture, without decoding (median)",
       [](Row r) { return fmt::format("{:.3f}", r.seconds); }},
      {is_emulated ? "emul. ×" : "speed-up",
       is_emulated
           ? "emulated: times as fast as the sequential run on one modelled "
             "device of speed 1"
           : "times as fast as the sequential run by one worker (median over "
             "runs of the same picture)",
       [](Row r) { return fmt::format("{:.2f}", r.speedup); }},
      {"effic.", "speed-up by the workers that the setting can use",
       [](Row r) { return fmt::format("{:.0f} %", 100 * r.efficiency); }},
      {"bound",
       "the largest speed-up that so many network calls leave: workers / "
       "NFE÷T. A speed-up that is more than a tenth above it (BUG; modelled "
       "without jitter: a thousandth) is a fault of the program or of the "
       "measurement, unless rows that share a pass of a GPU take less time "
       "than passes of their own",
       [](Row r) {
         return fmt::format("{:.2f}{}", r.bound,
                            r.is_above_bound ? " BUG" : "");
       }},
      {"rel. RMSE",
       "how far the latents are from the sequential run's, by the size of "
       "those (median); 0: the same bytes",
       [](Row r) { return rmse_text(r.rmse.median); }},
      {"worst", "the same of the picture that is furthest away",
       [](Row r) { return rmse_text(r.rmse.worst); }},
      {"× floor",
       "rel. RMSE by that of the floor: what a change of the initial noise by "
       "1e-6 makes of the sequential run. Near 1: the method is as near as "
       "rounding allows",
       [](Row r) {
         return r.over_floor == 0 ? "0"
                : r.over_floor    ? fmt::format("{:.{}f}", *r.over_floor,
                                             *r.over_floor < 10 ? 1 : 0)
                                  : "";
       },
       false},
      {"PSNR",
       "of 8-bit pictures against the sequential run's, in dB: of the median "
       "of the mean square errors",
       [](Row r) { return decibels(r.psnr.median, r); }},
      {"worst", "the lowest of them",
       [](Row r) { return decibels(r.psnr.worst, r); }, false},
      {"SSIM", "structural similarity of the same pictures (median); 1: equal",
       [](Row r) { return fmt::format("{:.3f}", r.ssim.median); }},
      {"worst", "the lowest of them",
       [](Row r) { return fmt::format("{:.3f}", r.ssim.worst); }, false}};
  if (report.prediction) {
    columns.push_back(
        {"predicted",
         "seconds by the emulation of these workers, and by how much they are "
         "off. It is told what passes take here while all workers are at work "
         "(batch, cfg), and how much faster a worker alone is",
         [](Row r) {
           return fmt::format("{:.3f}, {:+.1f} %", *r.predicted_seconds,
                              100 * *r.predicted_off);
         }});
  }
  const bool has_quality = std::ranges::any_of(
      report.rows, [](Row r) { return r.quality.has_value(); });
  if (has_quality) {
    columns.push_back({"accuracy",
                       "share of the pictures of --quality whose class the "
                       "model's classifier names first",
                       accuracy_text});
    columns.push_back(
        {"Fréchet",
         "distance of these pictures from the sequential run's of the same "
         "noise, in the classifier's features",
         paired_text});
    columns.push_back(
        {"by chance",
         "the same from the sequential run's pictures of other noise, median "
         "of four sets; of the sequential run: between two of its own five "
         "sets, median. FAR: larger than between any two of these",
         other_text});
  }
  return columns;
}

/// Of a setting: its window, segments or steps.
std::string first_number(const std::string& name) {
  const std::size_t begin = name.find_first_of("0123456789");
  return begin == std::string::npos
             ? std::string()
             : name.substr(begin, name.find(' ', begin) - begin);
}

std::string role_text(const SettingRow& row) {
  switch (row.role) {
    case RowRole::fewer_steps:
      return "reference: fewer steps, the same initial noise";
    case RowRole::floor:
      return "reference: floor, noise moved by 1e-6";
    case RowRole::method:
      break;
  }
  return row.rmse.worst == 0 ? "exact" : "";
}

std::size_t num_letters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

/// `text` behind spaces, or before them.
std::string padded(std::string_view text, std::size_t width, bool left) {
  const std::size_t letters = num_letters(text);
  const std::string room(width > letters ? width - letters : 0, ' ');
  return left ? std::string(text) + room : room + std::string(text);
}

std::string title_of(const MethodsReport& report) {
  return fmt::format("{}{}: {} steps {}, guidance {}, {}, {}",
                     report.emulated ? "emulated: " : "", report.model,
                     report.sampler, fmt::join(report.steps, " and "),
                     report.guidance, report.dtype, report.size);
}

std::string how_measured(const MethodsReport& report) {
  return fmt::format(
      "{} of each setting, {}; {}", counted(report.samples, "picture"),
      report.repeats == 1 ? std::string("drawn once")
                          : fmt::format("each drawn {} times", report.repeats),
      report.emulated
          ? fmt::format("emulated: {}, {} ms for a row, links "
                        "of {} Gbit/s; latents are computed, times are not "
                        "measured",
                        report.company, report.emulated->step_ms,
                        report.emulated->link_gbps)
          : report.company + " on " + report.machine +
                (report.bits.empty() ? "" : ", bits " + report.bits));
}

/// Sentences on all rows: how well emulation predicts them, and what chance
/// makes of pictures.
std::vector<std::string> remarks(const MethodsReport& report) {
  std::vector<std::string> all;
  if (report.prediction) {
    const auto& [settings, off, pace] = *report.prediction;
    all.push_back(fmt::format(
        "Emulation is {:.1f} % off (median) and {:.1f} % at worst, of {} "
        "settings of several workers: a row takes {:.2f} ms, each further row "
        "{:.2f} of that, a worker alone is {:.2f} times as fast.",
        100 * off.median, 100 * off.worst, settings, pace.row_ms,
        pace.row_slope, pace.solo_speed));
  }
  for (const SettingRow& row : report.rows) {
    if (row.quality && row.quality->frechet_range) {
      const QualityFigures& quality = *row.quality;
      std::string text = fmt::format(
          "Five seed sets of {} by the sequential run of {} steps: Fréchet "
          "distances of {:.3g} to {:.3g}",
          counted(quality.pictures, "picture"), row.steps,
          quality.frechet_range->least, quality.frechet_range->most);
      if (quality.accuracy_range) {
        text += fmt::format(", accuracy of {:.1f} to {:.1f} %",
                            100 * quality.accuracy_range->least,
                            100 * quality.accuracy_range->most);
      }
      all.push_back(text + ".");
    }
  }
  return all;
}

constexpr std::string_view kStyle = R"(
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;color:#222;margin:0 auto;
 padding:1rem;max-width:80rem}
h1{font-size:1.4rem;line-height:1.25}h2{font-size:1.15rem;margin-top:2rem}
h3{font-size:1rem}
.emulated{background:#fff3cd;border:1px solid #d9b84a;padding:.5rem .75rem}
.plots{display:flex;flex-wrap:wrap;gap:1rem 3rem}
figure,.plots dl{margin:1rem 0;max-width:28rem}
figcaption{font-size:.9rem;color:#555}
figure svg{max-width:100%;height:auto}
.table{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;
 font-size:.8rem}
th,td{padding:.3rem .25rem;text-align:right;border-bottom:1px solid #ddd;
 white-space:nowrap}
th:first-child,td:first-child{text-align:left;white-space:normal;
 min-width:10rem}
td small{display:block;color:#666}
tr.front td:first-child{border-left:4px solid #0072b2}
tr.reference{background:#f5f5f5}tr.bug{background:#fbdcd6}
dt{font-weight:bold;margin-top:.5rem}dd{margin:0 0 0 1rem}
code{overflow-wrap:anywhere;background:#f2f2f2;padding:0 .2rem}
@media(max-width:800px){
 thead{display:none}table,tbody{display:block}
 tr{display:grid;grid-template-columns:1fr 1fr;border:1px solid #ccc;
  margin:.75rem 0;padding:.25rem}
 td{display:flex;flex-wrap:wrap;justify-content:space-between;border:0;
  padding:.1rem .4rem}
 td::before{content:attr(data-head);color:#555;margin-right:.5rem}
 td:first-child{display:block;grid-column:1/3;font-weight:bold}
 td:first-child::before{content:none}td small{font-weight:normal}}
)";

std::string rows_html(const MethodsReport& report, int steps,
                      const std::vector<ReportColumn>& columns) {
  std::string html = "<div class='table'><table><thead><tr><th>setting</th>";
  for (const ReportColumn& column : columns) {
    html += fmt::format("<th>{}</th>", column.head);
  }
  html += "</tr></thead><tbody>\n";
  for (const SettingRow& row : report.rows) {
    if (row.steps != steps) {
      continue;
    }
    html += fmt::format("<tr class='{}{}{}'><td>{}<small>{}</small></td>",
                        row.is_on_front ? "front " : "",
                        row.role == RowRole::method ? "" : "reference ",
                        row.is_above_bound ? "bug" : "", xml_escaped(row.name),
                        role_text(row));
    std::string_view before;
    for (const ReportColumn& column : columns) {
      html +=
          fmt::format("<td data-head='{}'>{}</td>",
                      column.head == "worst" ? fmt::format("{}, worst", before)
                                             : std::string(column.head),
                      column.text(row));
      before = column.head == "worst" ? before : column.head;
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string item_html(std::string_view term, const std::string& text) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, text);
}

}  // namespace

void rank(MethodsReport& report) {
  std::ranges::stable_sort(report.rows, [](const SettingRow& a,
                                           const SettingRow& b) {
    return std::tuple(a.steps, -a.speedup) < std::tuple(b.steps, -b.speedup);
  });
  for (SettingRow& row : report.rows) {
    row.is_on_front =
        row.role != RowRole::floor &&
        std::ranges::none_of(report.rows, [&row](const SettingRow& other) {
          const bool is_as_good = other.speedup >= row.speedup &&
                                  other.rmse.median <= row.rmse.median;
          const bool is_better = other.speedup > row.speedup ||
                                 other.rmse.median < row.rmse.median;
          return other.steps == row.steps && other.role != RowRole::floor &&
                 is_as_good && is_better;
        });
  }
}

std::string ranked_table(const MethodsReport& report) {
  std::vector<ReportColumn> columns = report_columns(report);
  std::erase_if(columns, [](const ReportColumn& c) { return !c.is_short; });
  std::string text = title_of(report) + "\n" + how_measured(report) + "\n";
  for (const int steps : report.steps) {
    std::vector<std::vector<std::string>> lines = {{""}};
    for (const ReportColumn& column : columns) {
      lines.front().emplace_back(column.head);
    }
    for (const SettingRow& row : report.rows) {
      if (row.steps == steps) {
        auto& line = lines.emplace_back();
        line.push_back((row.is_on_front ? "* " : "  ") + row.name);
        for (const ReportColumn& column : columns) {
          line.push_back(column.text(row));
        }
      }
    }
    text += fmt::format("\n{} steps\n", steps);
    std::vector<std::size_t> widths(columns.size() + 1);
    for (const auto& line : lines) {
      for (std::size_t i = 0; i < line.size(); ++i) {
        widths[i] = std::max(widths[i], num_letters(line[i]));
      }
    }
    for (const auto& line : lines) {
      for (std::size_t i = 0; i < line.size(); ++i) {
        text += padded(line[i], widths[i] + (i == 0 ? 0 : 2), i == 0);
      }
      text += "\n";
    }
  }
  for (const std::string& remark : remarks(report)) {
    text += "\n" + wrapped("", remark, 0);
  }
  text += "\n*         no other row is as fast and as near\n";
  for (const ReportColumn& column : columns) {
    text += wrapped(column.head, column.meaning, 10);
  }
  for (const LeftOut& one : report.left_out) {
    text += wrapped(
        "left out:",
        fmt::format("{} at {} steps: {}", one.name, one.steps, one.reason), 10);
  }
  return text;
}

std::string front_svg(const MethodsReport& report, int steps) {
  PlotPanel panel{.x_axis = report.emulated ? "emulated speed-up" : "speed-up",
                  .y_axis = "relative RMSE of latents",
                  .logarithmic = true,
                  .lines = {}};
  std::vector<std::string> legend;
  const auto add = [&](const std::string& series, double at, double rmse,
                       const std::string& label) {
    if (legend.empty() || legend.back() != series) {
      legend.push_back(series);
      panel.lines.emplace_back();
      panel.at.emplace_back();
      panel.labels.emplace_back();
    }
    panel.at.back().push_back(at);
    panel.lines.back().push_back(rmse);
    panel.labels.back().push_back(label);
  };
  double fastest = 1;
  // In the table's order, so that a method has one colour in every plot.
  for (const samplers::MethodKind kind : samplers::method_table()) {
    for (const SettingRow& row : report.rows) {
      if (row.steps == steps && row.role == RowRole::method &&
          row.method.substr(0, row.method.find('+')) == kind->name &&
          row.rmse.median > 0) {
        fastest = std::max(fastest, row.speedup);
        add(row.method, row.speedup, row.rmse.median, first_number(row.name));
      }
    }
  }
  panel.num_scattered = legend.size();
  for (const RowRole role : {RowRole::fewer_steps, RowRole::floor}) {
    for (const SettingRow& row : report.rows) {
      if (row.steps != steps || row.role != role || row.rmse.median <= 0) {
        continue;
      }
      if (role == RowRole::floor) {
        add("floor", 0, row.rmse.median, "");
        add("floor", fastest, row.rmse.median, "");
      } else {
        fastest = std::max(fastest, row.speedup);
        add("fewer steps", row.speedup, row.rmse.median,
            first_number(row.name));
      }
    }
  }
  if (legend.empty()) {
    return "";
  }
  return plot_svg(
      {.title =
           fmt::format("{}{}, {} {} steps", report.emulated ? "emulated: " : "",
                       report.model, report.sampler, steps),
       .subtitle = "error against speed-up: right and low is better",
       .legend = std::move(legend),
       .panels = {std::move(panel)}});
}

std::string tolerance_svg(const MethodsReport& report) {
  constexpr std::string_view kOfWindow = "picard --window 4";
  PlotPanel panel{.x_axis = "tolerance of picard",
                  .y_axis = "rounds (median)",
                  .lines = {}};
  std::vector<std::string> legend;
  for (const int steps : report.steps) {
    std::map<double, double> rounds;
    for (const SettingRow& row : report.rows) {
      if (row.steps == steps && row.name.starts_with(kOfWindow)) {
        rounds[*row.tolerance] = row.rounds;
      }
    }
    if (rounds.size() > 1) {
      legend.push_back(fmt::format("{} steps", steps));
      panel.lines.emplace_back();
      panel.at.emplace_back();
      for (const auto& [tolerance, count] : rounds) {
        panel.at.back().push_back(tolerance);
        panel.lines.back().push_back(count);
      }
    }
  }
  return legend.empty() ? std::string()
                        : plot_svg({.title = std::string(kOfWindow),
                                    .subtitle = "rounds against tolerance",
                                    .legend = std::move(legend),
                                    .panels = {std::move(panel)}});
}

std::string passes_svg(const MethodsReport& report, int steps) {
  std::vector<const SettingRow*> rows;
  std::vector<double> efficiencies;
  for (const SettingRow& row : report.rows) {
    if (row.steps == steps && row.role == RowRole::method) {
      rows.push_back(&row);
      efficiencies.push_back(row.efficiency);
    }
  }
  constexpr std::size_t kLeastEfficient = 2;
  std::ranges::sort(efficiencies);
  const double low =
      efficiencies[std::min(kLeastEfficient, efficiencies.size()) - 1];
  std::vector<TimeLanes> groups;
  for (const SettingRow* row : rows) {
    if (!row->is_on_front && row->efficiency > low &&
        row->name != "sequential") {
      continue;
    }
    const bool is_cut = std::ranges::any_of(
        row->passes, [](const PassBar& pass) { return pass.segment > 0; });
    std::map<int, std::vector<TimeBar>> lanes;  // of workers that do something
    for (const PassBar& pass : row->passes) {
      lanes[pass.worker].push_back(
          {.start = pass.start,
           .seconds = pass.seconds,
           .series = static_cast<std::size_t>(pass.segment),
           .is_pale = pass.step % 2 != 0,
           .label =
               fmt::format("step {}{}, {:.3f} to {:.3f} s", pass.step,
                           is_cut ? fmt::format(", segment {}", pass.segment)
                                  : std::string(),
                           pass.start, pass.start + pass.seconds)});
    }
    auto& group = groups.emplace_back(TimeLanes{
        fmt::format("{}, {:.0f} %", row->name, 100 * row->efficiency), {}});
    for (auto& [worker, bars] : lanes) {
      group.lanes.push_back(std::move(bars));
    }
  }
  return time_line_svg(
      fmt::format("{}{}, {} {} steps", report.emulated ? "emulated: " : "",
                  report.model, report.sampler, steps),
      "passes of one picture by each worker, and the efficiency", groups);
}

std::string residuals_svg(const MethodsReport& report, int steps) {
  std::vector<HeatMap> maps;
  for (const SettingRow& row : report.rows) {
    if (row.steps == steps && row.residuals && row.tolerance.value_or(0) > 0) {
      HeatMap& map = maps.emplace_back(HeatMap{row.name, *row.residuals});
      for (std::vector<double>& column : map.columns) {
        std::ranges::for_each(column, [&](double& r) { r /= *row.tolerance; });
      }
    }
  }
  return maps.empty()
             ? std::string()
             : heat_map_svg(
                   fmt::format("{}, {} {} steps", report.model, report.sampler,
                               steps),
                   "sweeps of each step of one picture, from the top down",
                   maps);
}

std::string report_html(const MethodsReport& report) {
  const std::vector<ReportColumn> columns = report_columns(report);
  const std::string title = xml_escaped(title_of(report));
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>\n"
      "<meta name='viewport' content='width=device-width,initial-scale=1'>\n"
      "<title>{0}</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n",
      title, kStyle);
  if (report.emulated) {
    html +=
        "<p class='emulated'>Emulated: latents, rounds and network calls are "
        "computed. Times and speed-ups are modelled, not measured.</p>\n";
  }
  html += fmt::format(
      "<p>{}. Compared with the sequential run in the same "
      "process.</p>\n",
      xml_escaped(how_measured(report)));
  for (const std::string& remark : remarks(report)) {
    html += "<p>" + xml_escaped(remark) + "</p>\n";
  }
  for (const int steps : report.steps) {
    html += fmt::format("<h2>{} steps</h2>\n", steps);
    html += "<div class='plots'>\n";
    if (const std::string svg = front_svg(report, steps); !svg.empty()) {
      html += "<figure>" + svg +
              "<figcaption>Exact settings have no error, and are not "
              "drawn. A number is the setting's window, segments or "
              "steps.</figcaption></figure>\n";
    }
    html += "<figure>" + passes_svg(report, steps) +
            "<figcaption>Network calls of the first picture: the sequential "
            "run, settings that no other row beats in speed and error, and "
            "the two of lowest efficiency. Steps are dark and pale in turn; "
            "each segment of a network has a colour of its own.</figcaption>"
            "</figure>\n</div>\n";
    if (const std::string svg = residuals_svg(report, steps); !svg.empty()) {
      html +=
          "<h3>Where sweeps converge late</h3>\n<div class='plots'><figure>" +
          svg + "</figure><dl>" +
          item_html("what",
                    "picard and taa guess the latents after several steps at "
                    "once, and correct the guesses in sweeps until they change "
                    "no more. A cell is a sweep of a step of the first "
                    "picture. Settings of tolerance 0 are not drawn.") +
          item_html("to the right", "The steps, from noise (0) to picture.") +
          item_html("downwards", "The sweeps of a step, one after another.") +
          item_html("colour",
                    "The residual: how much the sweep changed the latents "
                    "after the step (root mean square, on the accept rule's "
                    "scale), divided by the tolerance. A colour is half a "
                    "power of ten. The darker, the more it changed. Light "
                    "cells are within the tolerance; a black line parts them "
                    "from dark ones.") +
          item_html("late",
                    "Where columns are long and dark. A column may end dark: "
                    "the first step of a round above the tolerance becomes "
                    "final, too, because all steps before it are final.") +
          "</dl></div>\n";
    }
    html += rows_html(report, steps, columns);
  }
  if (const std::string svg = tolerance_svg(report); !svg.empty()) {
    html += "<h2>Tolerance of picard</h2>\n<figure>" + svg + "</figure>\n";
  }
  html += "<h2>What the columns say</h2>\n<dl>\n" +
          item_html("setting",
                    "as it follows <code>--method</code>; a bar on the left: "
                    "no other row is as fast and as near");
  for (const ReportColumn& column : columns) {
    html += item_html(column.head, xml_escaped(std::string(column.meaning)));
  }
  html += "</dl>\n";
  if (!report.left_out.empty()) {
    html += "<h2>Left out</h2>\n<dl>\n";
    for (const LeftOut& one : report.left_out) {
      html += item_html(
          fmt::format("{}, {} steps", xml_escaped(one.name), one.steps),
          xml_escaped(one.reason));
    }
    html += "</dl>\n";
  }
  html +=
      "<h2>How it was made</h2>\n<dl>\n" +
      item_html("command", "<code>" + xml_escaped(report.command) + "</code>") +
      item_html("machine", xml_escaped(report.machine)) +
      item_html("build", xml_escaped(fmt::format(
                             "sources {}, execution class {}", report.sources,
                             report.execution_class))) +
      item_html("weights", report.weights_xxh3) +
      item_html("pictures",
                xml_escaped(fmt::format(
                    "indices {} to {}, seed {}{}", report.first,
                    report.first + report.samples - 1, report.seed,
                    report.conditions.empty()
                        ? std::string()
                        : fmt::format(", of {} in turn",
                                      fmt::join(report.conditions, ", "))))) +
      item_html("date", report.date);
  for (const std::string& note : report.notes) {
    html += item_html("note", xml_escaped(note));
  }
  return html + "</dl>\n</body></html>\n";
}

}  // namespace troupe::actors
