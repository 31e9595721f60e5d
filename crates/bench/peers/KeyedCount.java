import java.io.Serializable;
import java.sql.Timestamp;
import java.time.Duration;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.KeyValueGroupedDataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.GroupState;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple2;
import scala.Tuple3;

/**
 * A running count and last time of each key, which are forgotten half an hour after the key's last record. Python's own state
 * functions pass every row to another process, which would not be Spark at its best.
 *
 * Rows that come in have the columns k (BIGINT), sent (BIGINT, microseconds) and ts (TIMESTAMP).
 */
public final class KeyedCount {
  private static final Duration TIMEOUT = Duration.ofMinutes(30);

  private static final Encoder<Tuple2<Long, Long>> STATE = Encoders.tuple(Encoders.LONG(), Encoders.LONG());
  private static final Encoder<Tuple3<Long, Long, Long>> OUT = Encoders.tuple(Encoders.LONG(), Encoders.LONG(), Encoders.LONG());

  private KeyedCount() {}

  private static KeyValueGroupedDataset<Long, Row> byKey(Dataset<Row> rows) {
    return rows.groupByKey((MapFunction<Row, Long>) row -> row.getLong(0), Encoders.LONG());
  }

  /** By flatMapGroupsWithState with timeouts of event time, which any provider of state has. */
  public static Dataset<Row> flatMapGroupsWithState(Dataset<Row> rows) {
    FlatMapGroupsWithStateFunction<Long, Row, Tuple2<Long, Long>, Tuple3<Long, Long, Long>> count = KeyedCount::count;
    return byKey(rows)
        .flatMapGroupsWithState(count, OutputMode.Update(), STATE, OUT, GroupStateTimeout.EventTimeTimeout())
        .toDF("k", "n", "sent");
  }

  private static Iterator<Tuple3<Long, Long, Long>> count(Long key, Iterator<Row> rows, GroupState<Tuple2<Long, Long>> state) {
    if (state.hasTimedOut()) {
      state.remove();
      return Collections.emptyIterator();
    }
    long n = state.exists() ? state.get()._1() : 0;
    long sent = state.exists() ? state.get()._2() : 0;
    long time = 0;
    while (rows.hasNext()) {
      Row row = rows.next();
      n++;
      sent = Math.max(sent, row.getLong(1));
      time = Math.max(time, row.<Timestamp>getAs(2).getTime());
    }
    state.update(new Tuple2<>(n, sent));
    state.setTimeoutTimestamp(time + TIMEOUT.toMillis());
    return Collections.singletonList(new Tuple3<>(key, n, sent)).iterator();
  }

  /** By transformWithState, which real-time mode has; its state is forgotten by the machine's clock. */
  public static Dataset<Row> transformWithState(Dataset<Row> rows) {
    return byKey(rows).transformWithState(new Counter(), TimeMode.ProcessingTime(), OutputMode.Update(), OUT).toDF("k", "n", "sent");
  }

  /** The state of {@link #transformWithState}. */
  public static final class Counter extends StatefulProcessor<Long, Row, Tuple3<Long, Long, Long>> implements Serializable {
    private transient ValueState<Tuple2<Long, Long>> state;

    @Override
    public void init(OutputMode mode, TimeMode time) {
      state = getHandle().getValueState("count", STATE, new TTLConfig(TIMEOUT));
    }

    @Override
    public scala.collection.Iterator<Tuple3<Long, Long, Long>> handleInputRows(
        Long key, scala.collection.Iterator<Row> rows, TimerValues timers) {
      Tuple2<Long, Long> before = state.exists() ? state.get() : new Tuple2<>(0L, 0L);
      long n = before._1();
      long sent = before._2();
      while (rows.hasNext()) {
        Row row = rows.next();
        n++;
        sent = Math.max(sent, row.getLong(1));
      }
      state.update(new Tuple2<>(n, sent));
      return scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(new Tuple3<>(key, n, sent)).iterator());
    }
  }
}
