import org.apache.hadoop.hdfs.server.balancer.Balancer;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/** Hadoop's balancer, which registers its metrics anew with each round: without this 3.4.2 ends with an exception in the second one. */
public class Balance {
  public static void main(String[] arguments) {
    DefaultMetricsSystem.setMiniClusterMode(true);
    Balancer.main(arguments);
  }
}
