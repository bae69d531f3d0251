/* The rule of fedlab_mini/judge/evidence.py: t, cut to the range; the more seeds sit at an end of the range, the more
 * counts one more seed at the far end. */
function shareBelow(place, points) {
  const above = points.filter((x) => x > place).map((x) => x - place);
  const part = [1, ...above.map(() => 0)];
  for (const x of points) {
    if (x > place) continue;
    above.forEach((gap, k) => { part[k + 1] = ((place - x) * part[k] + gap * part[k + 1]) / (place - x + gap); });
  }
  return part.at(-1);
}

function bound(x, end, share) {
  const points = [...x, end];
  let [low, high] = [Math.min(...points), Math.max(...points)];
  for (let halving = 0; halving < 60; halving++) {
    const mid = (low + high) / 2;
    if (shareBelow(mid, points) < share) low = mid; else high = mid;
  }
  return (low + high) / 2;
}

/* Mean, low and high of one value a seed; `spans`: half an interval of 2, 3, ... seeds, in standard deviations. */
function interval(x, range, spans) {
  if (!x.length) return [NaN, NaN, NaN];
  const mean = total(x) / x.length;
  const half = spans[x.length - 2] * Math.sqrt(total(x.map((v) => (v - mean) ** 2)) / (x.length - 1));
  const ends = [Math.max(range[0], mean - half), Math.min(range[1], mean + half)];
  const room = 1e-6 * (Number.isFinite(range[1] - range[0]) ? range[1] - range[0] : Math.max(...x.map(Math.abs)));
  const agree = Math.max(...x) - Math.min(...x) <= room;
  const crowd = x.filter((v) => range.some((end) => Math.abs(v - end) <= room)).length;
  const weight = agree ? 1 : Math.min(Math.max((2 * crowd) / x.length - 0.5, 0), 1);
  range.forEach((end, side) => {
    if (weight && Number.isFinite(end)) ends[side] += weight * (bound(x, end, side ? 0.975 : 0.025) - ends[side]);
    else if (agree) ends[side] = end;
  });
  return [mean, ...ends];
}
