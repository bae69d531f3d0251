/* Park and Miller's generator: numbers in (0, 1), the same in every language. */
function uniforms(seed) {
  let state = seed + 1;
  const next = () => { state = (state * 48271) % 2147483647; return state / 2147483647; };
  for (let k = 0; k < 8; k++) next();
  return next;
}
