// Counts keys of a cluster up until its standard input ends; a dot for each 50, and at last what was counted, as JSON.

exports.count = async function (cluster, prefix) {
  let ended = false;
  process.stdin.on("end", () => (ended = true)).resume();
  const counts = {};
  const errors = [];
  for (let number = 0; !ended && !errors.length; number++) {
    const key = `${prefix}:${number % 50}`;
    try {
      counts[key] = await cluster.incr(key);
    } catch (error) {
      errors.push(String(error));
    }
    if (number % 50 === 49) console.log(".");
  }
  console.log(JSON.stringify({ counts, errors }));
  process.exit();
};
